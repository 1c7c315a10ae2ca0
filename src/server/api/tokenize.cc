// POST /tokenize and /detokenize (surface document, section 3.6).
#include "frontend/api_error.h"
#include "server/api/chat_request.h"
#include "server/api/generation.h"

namespace octavo {

Reply tokenize(ServerContext& context, const HttpRequest& request) {
  Json body = parse_body(request);
  Fields fields(body);
  check_model(context, fields);
  const Text& text = context.frontend.text();
  std::vector<int32_t> ids;
  if (fields.has("messages")) {
    ids = text.encode(text.render(read_chat(context, fields)), fields.flag("add_special_tokens", false));
  } else {
    auto prompt = fields.text("prompt");
    if (!prompt) fields.fail("prompt", "a string");
    ids = text.encode(*prompt, fields.flag("add_special_tokens", true));
  }
  Json strings;
  if (fields.flag("return_token_strs", false)) {
    strings = Json::array();
    for (int32_t id : ids) strings.push_back(text.token_spelling(id));
  }
  return json_reply({{"count", ids.size()},
                     {"max_model_len", context.frontend.max_model_len()},
                     {"tokens", ids},
                     {"token_strs", strings}});
}

Reply detokenize(ServerContext& context, const HttpRequest& request) {
  Json body = parse_body(request);
  Fields fields(body);
  check_model(context, fields);
  if (!fields.has("tokens")) fields.fail("tokens", "an array of token ids");
  std::vector<int32_t> ids;
  for (int64_t id : fields.integers("tokens")) {
    if (id < 0 || id >= context.frontend.text().vocab())
      bad_request("tokens", str("Token id ", id, " is out of vocabulary."));
    ids.push_back(static_cast<int32_t>(id));
  }
  return json_reply({{"prompt", context.frontend.text().decode(ids, false)}});
}

}  // namespace octavo
