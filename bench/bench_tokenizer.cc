// A tokenizer on texts: bench_tokenizer TOKENIZER.json [TEXT_FILE...]
// One JSON line for the load, then one for each text (first call, median of 9, MB/s). Without files the texts
// are the hard cases: single words of 1 MB. With "-" as the only file it answers requests, one JSON line
// each, for bench/tokenizer_vs_hf.py: {"file": path or "text": text, "ids": bool} -> {"seconds", "tokens",
// "ids"}.
#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "text/tokenizer/tokenizer.h"

namespace {

using octavo::Tokenizer;
using Json = nlohmann::ordered_json;

// CPU time of this process, which has one thread: the same as wall time on an idle machine, and fair on a
// busy one.
double now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void report(const Tokenizer& tokenizer, const std::string& name, const std::string& text) {
  std::vector<double> seconds;
  size_t tokens = 0;
  double start = now();
  tokenizer.encode(text, false);
  const double first = now() - start;
  for (int i = 0; i < 9; ++i) {
    start = now();
    tokens = tokenizer.encode(text, false).size();
    seconds.push_back(now() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 4, seconds.end());
  std::cout << Json{{"bench", "encode"},
                    {"text", name},
                    {"bytes", text.size()},
                    {"tokens", tokens},
                    {"first_ms", first * 1e3},
                    {"median_ms", seconds[4] * 1e3},
                    {"mb_per_s", text.size() / seconds[4] / 1e6}}
            << std::endl;
}

void report_hard_words(const Tokenizer& tokenizer) {
  constexpr size_t kBytes = 1'000'000;
  report(tokenizer, "a * 1e6", std::string(kBytes, 'a'));
  report(tokenizer, "space * 1e6", std::string(kBytes, ' '));
  report(tokenizer, "newline * 1e6", std::string(kBytes, '\n'));
  report(tokenizer, "digit * 1e6", std::string(kBytes, '7'));
  report(tokenizer, "! * 1e6", std::string(kBytes, '!'));
  std::mt19937 random(1);
  std::string letters(kBytes, ' ');
  for (char& c : letters) c = static_cast<char>('a' + random() % 26);
  report(tokenizer, "random letters", letters);
  std::string marks = "a";
  while (marks.size() < kBytes) marks += random() % 2 ? "\xCC\x81" : "\xCC\xA3";  // classes 230 and 220
  report(tokenizer, "combining marks", marks);
}

void answer_requests(const Tokenizer& tokenizer) {
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    const std::string text =
        request.contains("text") ? request.at("text").get<std::string>() : read_file(request.at("file"));
    const double start = now();
    const std::vector<int32_t> ids = tokenizer.encode(text, false);
    Json answer = {{"seconds", now() - start}, {"tokens", ids.size()}};
    if (request.value("ids", false)) answer["ids"] = ids;
    std::cout << answer << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: bench_tokenizer TOKENIZER.json [TEXT_FILE... | -]");
  const std::string json = read_file(argv[1]);
  const double start = now();
  const auto tokenizer = Tokenizer::from_json(json, argv[1]);
  std::cout << Json{{"bench", "load"},
                    {"file", argv[1]},
                    {"bytes", json.size()},
                    {"ms", (now() - start) * 1e3}}
            << std::endl;
  if (argc == 3 && std::string(argv[2]) == "-") {
    answer_requests(*tokenizer);
  } else if (argc == 2) {
    report_hard_words(*tokenizer);
  } else {
    for (int i = 2; i < argc; ++i) report(*tokenizer, argv[i], read_file(argv[i]));
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
