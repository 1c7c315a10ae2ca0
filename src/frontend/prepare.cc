// Frontend::prepare: prompt to token ids, fields to parameters. Everything that can be wrong with a request
// is found here.
#include <algorithm>

#include "frontend/api_error.h"
#include "frontend/frontend.h"

namespace octavo {
namespace {

constexpr size_t kMaxBadWords = 128;        // VLLM_MAX_NUM_BAD_WORDS
constexpr size_t kMaxBadWordTokens = 1024;  // VLLM_MAX_BAD_WORDS_TOTAL_TOKENS
/// No tokenizer in use makes fewer tokens of that many bytes: longer texts are refused before they are
/// tokenised.
constexpr int64_t kMaxBytesPerToken = 256;

[[noreturn]] void too_long(const std::string& have, int64_t limit) {
  throw ApiError(400, "BadRequestError",
                 str("This model's maximum context length is ", limit, " tokens. However, your request has ",
                     have, ". Please reduce the length of the input. (parameter=input_tokens)"),
                 "input_tokens");
}

void check_cache_salt(const std::string& salt) {
  if (salt.size() > 128) bad_request("cache_salt", "cache_salt must be at most 128 characters long.");
  if (salt.find_first_of(std::string("@/\\\0", 4)) != std::string::npos)
    bad_request("cache_salt", "cache_salt must not contain NUL, '@', '/' or '\\'.");
}

/// Each word with and without a leading space, as sequences of tokens.
std::vector<std::vector<int32_t>> bad_word_ids(const Text& text, const std::vector<std::string>& words) {
  if (words.size() > kMaxBadWords)
    bad_request("bad_words", str("At most ", kMaxBadWords, " bad_words are allowed."));
  std::vector<std::vector<int32_t>> out;
  size_t total = 0;
  for (const std::string& word : words) {
    size_t start = word.find_first_not_of(' ');
    if (start == std::string::npos) bad_request("bad_words", "bad_words cannot contain an empty string.");
    std::vector<int32_t> bare = text.encode(word.substr(start), false),
                         spaced = text.encode(" " + word.substr(start), false);
    total += bare.size() + spaced.size();
    // A leading space that becomes a token of its own would forbid the space itself.
    if (spaced != bare && spaced.size() == bare.size() && spaced[0] != bare[0])
      out.push_back(std::move(spaced));
    out.push_back(std::move(bare));
  }
  if (total > kMaxBadWordTokens)
    bad_request("bad_words", str("bad_words have more than ", kMaxBadWordTokens, " tokens."));
  return out;
}

void truncate(std::vector<int32_t>& ids, int64_t wanted, bool left, int64_t max_model_len) {
  if (wanted < -1) bad_request("truncate_prompt_tokens", "truncate_prompt_tokens must be at least -1.");
  if (wanted > max_model_len)
    bad_request("truncate_prompt_tokens",
                str("truncate_prompt_tokens value (", wanted, ") is greater than max_model_len (",
                    max_model_len, "). Please request a smaller truncation size."));
  size_t keep = static_cast<size_t>(wanted == -1 ? max_model_len - 1 : wanted);
  if (ids.size() <= keep) return;
  if (left)
    ids.erase(ids.begin(), ids.end() - static_cast<ptrdiff_t>(keep));
  else
    ids.resize(keep);
}

}  // namespace

std::vector<int32_t> Frontend::encode(const GenerateRequest& request) const {
  if (auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) return *ids;
  bool chat = std::holds_alternative<ChatPrompt>(request.prompt);
  std::string rendered = chat ? text_.render(std::get<ChatPrompt>(request.prompt)) : std::string();
  const std::string& text = chat ? rendered : std::get<std::string>(request.prompt);
  if (!request.truncate_prompt_tokens &&
      static_cast<int64_t>(text.size()) / kMaxBytesPerToken > max_model_len_)
    too_long(str(text.size(), " characters of input, more than can fit"), max_model_len_);
  return text_.encode(text, request.add_special_tokens);
}

Prepared Frontend::prepare(const GenerateRequest& request) const {
  Prepared out;
  out.prompt = encode(request);
  if (request.truncate_prompt_tokens)
    truncate(out.prompt, *request.truncate_prompt_tokens, request.truncate_left, max_model_len_);
  int64_t length = static_cast<int64_t>(out.prompt.size()), vocab = engine_.model_info().vocab;
  if (length == 0) bad_request("prompt", "The prompt must have at least one token.");
  for (int32_t id : out.prompt)
    if (id < 0 || id >= vocab)
      bad_request("prompt", str("Token id ", id, " is out of vocabulary (0 to ", vocab - 1, ")."));
  if (length >= max_model_len_)
    too_long(str(length, " input tokens, which leaves no room for output"), max_model_len_);
  check_cache_salt(request.cache_salt);
  out.sampling = resolve_sampling(request.sampling, options_.defaults,
                                  {.vocab = vocab,
                                   .max_model_len = max_model_len_,
                                   .max_logprobs = options_.max_logprobs,
                                   .prompt_tokens = length,
                                   .chat = std::holds_alternative<ChatPrompt>(request.prompt),
                                   .echo = request.echo,
                                   .logprobs_mode = options_.logprobs_mode});
  out.sampling.eos_ids = options_.eos_ids;
  out.sampling.bad_words = bad_word_ids(text_, request.sampling.bad_words);
  out.fields = request.sampling;
  out.priority = static_cast<int32_t>(std::clamp<int64_t>(request.priority, INT32_MIN, INT32_MAX));
  out.cache_salt = request.cache_salt;
  out.request_id = request.request_id;
  return out;
}

}  // namespace octavo
