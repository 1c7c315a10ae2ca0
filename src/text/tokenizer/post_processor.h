// The "post_processor" of a tokenizer.json: the special tokens around one or two encoded sequences.
#pragma once

#include <cstdint>
#include <vector>

namespace octavo::tok {

class JsonView;
class Vocab;

class PostProcessor {
 public:
  static constexpr int32_t kFirst = -1, kSecond = -2;  // where the sequences go

  PostProcessor() = default;
  /// Patterns of special ids, kFirst and kSecond.
  PostProcessor(std::vector<int32_t> single, std::vector<int32_t> pair);
  /// Error if the type is unknown.
  static PostProcessor from_json(const JsonView& json);

  std::vector<int32_t> apply(const std::vector<int32_t>& first) const { return fill(single_, first, {}); }
  std::vector<int32_t> apply(const std::vector<int32_t>& first, const std::vector<int32_t>& second) const {
    return fill(pair_, first, second);
  }
  /// The special tokens before (after) a single sequence.
  std::vector<int32_t> before() const;
  std::vector<int32_t> after() const;

 private:
  static std::vector<int32_t> fill(const std::vector<int32_t>& pattern, const std::vector<int32_t>& first,
                                   const std::vector<int32_t>& second);

  std::vector<int32_t> single_ = {kFirst};
  std::vector<int32_t> pair_ = {kFirst, kSecond};
};

}  // namespace octavo::tok
