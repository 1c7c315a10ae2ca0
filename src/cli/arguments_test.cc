#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/statistics.h"

namespace octavo {
namespace {

using Strings = std::vector<std::string>;

TEST(Arguments, UnderscoresBecomeDashesInNamesOnly) {
  EXPECT_EQ(normalise_arguments({"serve", "my_model", "--max_model_len=4_0", "--chat_template", "a_b"}),
            (Strings{"serve", "my_model", "--max-model-len=4_0", "--chat-template", "a_b"}));
  EXPECT_EQ(normalise_arguments({"serve", "m", "-tp", "1"}),
            (Strings{"serve", "m", "--tensor-parallel-size", "1"}));
}

TEST(Arguments, ConfigFileComesFirst) {
  std::string path = ::testing::TempDir() + "octavo_config.yaml";
  std::ofstream(path)
      << "model: from_file\nport: 12\nserved_model_name: [a, b]\nenable-prefix-caching: false\n"
         "override-generation-config: {temperature: 0.5, note: '7'}\nunset:\n";
  Strings expected{"serve",
                   "from_file",
                   "--port",
                   "12",
                   "--served-model-name",
                   "a",
                   "b",
                   "--no-enable-prefix-caching",
                   "--override-generation-config",
                   "{\"temperature\":0.5,\"note\":\"7\"}",
                   "--port",
                   "13"};
  EXPECT_EQ(normalise_arguments({"serve", "--config", path, "--port", "13"}), expected);
  Strings own = normalise_arguments({"serve", "mine", "--config=" + path});
  EXPECT_EQ(own[1], "mine");  // before the file's flags, whose last may be a list
  EXPECT_EQ(own[2], "--port");
  EXPECT_EQ(std::ranges::count(own, "from_file"), 0);
  EXPECT_THROW(normalise_arguments({"serve", "--config", path, "--config", path}), Error);
  EXPECT_THROW(normalise_arguments({"serve", "--config", "/nowhere.yaml"}), Error);
  std::remove(path.c_str());
}

// Aliases can make a value endless, or double it at each level.
TEST(Arguments, ConfigFileIsBounded) {
  auto message = [](const std::string& text) -> std::string {
    try {
      parse_config_file(text, "c.yaml");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("a: {b: &x [*x]}\n").find("c.yaml: more than"), std::string::npos);
  std::string doubling = "a0: &a0 [1, 1]\n";
  for (int i = 1; i < 40; ++i) doubling += str("a", i, ": &a", i, " {x: *a", i - 1, ", y: *a", i - 1, "}\n");
  EXPECT_NE(message(doubling).find("c.yaml: more than"), std::string::npos);
  EXPECT_NE(message("{[1]: 2}\n").find("c.yaml: expected a plain value"), std::string::npos);
  EXPECT_NE(message("a: [[1]]\n").find("c.yaml: expected a plain value"), std::string::npos);
  EXPECT_NE(message("- a\n").find("c.yaml: expected a map"), std::string::npos);
  EXPECT_NE(message("a: [").find("c.yaml: "), std::string::npos);
}

TEST(Arguments, NearestFlag) {
  Strings flags{"--port", "--host", "--max-model-len", "--max-num-seqs"};
  EXPECT_EQ(nearest("--prot", flags), "--port");
  EXPECT_EQ(nearest("--max-model-length", flags), "--max-model-len");
  EXPECT_EQ(nearest("--zzzzzz", flags), "");
}

TEST(Arguments, Counts) {
  EXPECT_EQ(parse_count("4096", "f"), 4096);
  EXPECT_EQ(parse_count("32k", "f"), 32000);
  EXPECT_EQ(parse_count("32K", "f"), 32768);
  EXPECT_EQ(parse_count("1.5M", "f"), 1572864);
  EXPECT_EQ(parse_count("2g", "f"), 2000000000);
  for (const char* bad : {"", "k", "12x", "1kk", "nan", "1e40"})
    EXPECT_THROW(parse_count(bad, "f"), Error) << bad;
}

TEST(Statistics, AsNumpy) {
  std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(mean(values), 2.5);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 3.97);
  EXPECT_NEAR(standard_deviation(values), 1.118033988749895, 1e-12);
  EXPECT_EQ(percentile({}, 50), 0);
}

}  // namespace
}  // namespace octavo
