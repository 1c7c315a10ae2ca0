// Golden tokenizers for the tests of this folder.
#pragma once

#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace octavo::tok {

inline const std::vector<std::string> kGoldenTokenizers = {"bert_uncased", "gemma3",   "gpt2",  "gptoss",
                                                           "llama2_spm",   "llama3_1", "qwen3", "qwen3_5",
                                                           "smollm2",      "whisper"};

inline std::string golden_path(const std::string& relative) {
  return std::string(OCTAVO_SHARED_DIR) + "/golden/" + relative;
}

/// The content of a file, unpacked if it is gzip.
inline std::string read_golden(const std::string& relative) {
  const std::string path = golden_path(relative);
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw Error(path, ": cannot open");
  std::string content;
  char buffer[1 << 16];
  for (int n; (n = gzread(file, buffer, sizeof(buffer))) > 0;) content.append(buffer, n);
  gzclose(file);
  return content;
}

}  // namespace octavo::tok
