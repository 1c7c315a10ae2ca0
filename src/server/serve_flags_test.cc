#include "server/serve_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace octavo {
namespace {

using Strings = std::vector<std::string>;

ServerOptions parsed(Strings arguments) {
  ServerOptions options;
  CLI::App app;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as run_command_line has it
  add_server_flags(app, options);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return options;
}

// As argparse does it: a config file's list gives way to the command line's.
TEST(ServeFlags, TheLastListCounts) {
  EXPECT_EQ(parsed({"--served-model-name", "a", "b"}).served_model_names, (Strings{"a", "b"}));
  EXPECT_EQ(
      parsed({"--served-model-name", "a", "b", "--port", "1", "--served-model-name", "c"}).served_model_names,
      (Strings{"c"}));
  EXPECT_EQ(parsed({"--served-model-name=a", "--served-model-name", "b", "c"}).served_model_names,
            (Strings{"b", "c"}));
  EXPECT_EQ(parsed({"--api-key", "old", "--api-key", "new"}).api_keys, (Strings{"new"}));
  EXPECT_EQ(parsed({"--allowed-origins", "[\"x\",\"y\"]", "--allowed-origins", "[\"z\"]"}).allowed_origins,
            (Strings{"z"}));
  EXPECT_EQ(parsed({}).allowed_methods, ServerOptions().allowed_methods);
}

}  // namespace
}  // namespace octavo
