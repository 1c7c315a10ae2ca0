#include "load/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "load/families.h"
#include "load/json.h"

namespace octavo {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSize = 1 << 24;  // of hidden, intermediate, vocab
constexpr int64_t kMaxLayers = 1 << 12;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxPosition = int64_t{1} << 31;
constexpr int64_t kMaxId = INT32_MAX;

template <class T>
struct Named {
  std::string_view name;
  T value;
};

/// The row's value; Error listing all names if there is none.
template <class T, size_t N>
T look_up(const Named<T> (&table)[N], const std::string& key, const std::string& what) {
  std::string known;
  for (const Named<T>& row : table) {
    if (row.name == key) return row.value;
    known += str(known.empty() ? "" : ", ", row.name);
  }
  throw Error(what, ": unknown '", key, "'; supported: ", known);
}

constexpr Named<Activation> kActivations[] = {
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"gelu", Activation::kGelu},          {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"relu", Activation::kRelu}};
constexpr Named<DType> kDTypes[] = {{"float32", DType::kF32},
                                    {"float", DType::kF32},
                                    {"float16", DType::kF16},
                                    {"half", DType::kF16},
                                    {"bfloat16", DType::kBF16}};
constexpr Named<LayerKind> kLayerKinds[] = {{"full_attention", LayerKind::kFull},
                                            {"sliding_attention", LayerKind::kSliding}};

/// A token id or a list of them.
std::vector<int32_t> read_ids(const JsonFields& fields, const char* key) {
  const json* value = fields.find({key});
  if (!value) return {};
  std::vector<int32_t> ids;
  for (const json& item : value->is_array() ? *value : json::array({*value})) {
    bool valid = item.is_number_integer() && item.get<int64_t>() >= -1 && item.get<int64_t>() <= kMaxId;
    if (!valid) fields.fail({key}, "a token id or a list of them");
    if (item.get<int64_t>() >= 0) ids.push_back(item.get<int32_t>());  // -1 means none
  }
  return ids;
}

std::optional<int32_t> read_id(const JsonFields& fields, const char* key) {
  std::vector<int32_t> ids = read_ids(fields, key);
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

/// The language model's fields: those of a nested text_config over those beside it.
json text_fields(const json& config, const std::string& origin) {
  JsonFields fields(config, origin);
  const json* nested = fields.find({"text_config"});
  if (!nested) return config;
  if (!nested->is_object()) fields.fail({"text_config"}, "an object");
  json merged = config;
  merged.erase("text_config");
  merged.update(*nested);
  if (config.contains("architectures")) merged["architectures"] = config["architectures"];
  return merged;
}

const Family& find_family(const JsonFields& fields) {
  std::string model_type = fields.text({"model_type"}, "");
  const json* list = fields.find({"architectures"});
  if (list && (!list->is_array() || list->empty() || !list->at(0).is_string()))
    fields.fail({"architectures"}, "a list of names");
  std::string wanted = list ? list->at(0).get<std::string>() : model_type;
  for (const Family& family : families())
    if (wanted == (list ? family.architecture : family.model_type)) return family;
  throw Error(fields.origin(), ": architecture '", wanted,
              "' is not supported; supported: ", supported_architectures());
}

void read_sizes(const JsonFields& fields, const FamilyDefaults& d, ModelConfig& out) {
  out.hidden = fields.integer({"hidden_size", "n_embd"}, d.hidden, 1, kMaxSize);
  out.layers = fields.integer({"num_hidden_layers", "n_layer"}, d.layers, 1, kMaxLayers);
  out.heads = fields.integer({"num_attention_heads", "n_head"}, d.heads, 1, kMaxHeads);
  // An explicit null means one KV head per head; a missing key means the family's default.
  int64_t kv_default = d.kv_heads && !fields.has_null("num_key_value_heads") ? d.kv_heads : out.heads;
  out.kv_heads = fields.integer({"num_key_value_heads"}, kv_default, 1, kMaxHeads);
  if (out.heads % out.kv_heads)
    throw Error(fields.origin(), ": num_attention_heads ", out.heads,
                " is not a multiple of num_key_value_heads ", out.kv_heads);
  int64_t head_dim = d.head_dim && !fields.has_null("head_dim") ? d.head_dim : out.hidden / out.heads;
  if (!fields.find({"head_dim"}) && head_dim != d.head_dim && out.hidden % out.heads)
    throw Error(fields.origin(), ": hidden_size ", out.hidden, " is not a multiple of num_attention_heads ",
                out.heads);
  out.head_dim = fields.integer({"head_dim"}, head_dim, 1, 1 << 16);
  int64_t intermediate = d.intermediate ? d.intermediate : 4 * out.hidden;
  out.intermediate = fields.integer({"intermediate_size", "ffn_dim", "n_inner"}, intermediate, 1, kMaxSize);
  out.vocab = fields.integer({"vocab_size"}, d.vocab, 1, kMaxSize);
  out.max_position_embeddings =
      fields.integer({"max_position_embeddings", "n_positions"}, d.max_position, 1, kMaxPosition);
  out.word_embed_proj_dim = fields.integer({"word_embed_proj_dim"}, out.hidden, 1, kMaxSize);
}

void read_options(const JsonFields& fields, const Family& family, ModelConfig& out) {
  const FamilyDefaults& d = family.defaults;
  out.norm_eps =
      fields.number({"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"}, d.norm_eps, 1e-30, 1);
  std::string activation = fields.text({"hidden_act", "activation_function"}, std::string(d.activation));
  out.activation = look_up(kActivations, activation, fields.origin() + ": hidden_act");
  out.tie_word_embeddings = fields.boolean({"tie_word_embeddings"}, d.tied);
  std::string dtype = fields.text({"dtype", "torch_dtype"}, "auto");
  if (dtype.starts_with("torch.")) dtype = dtype.substr(6);
  if (dtype != "auto") out.dtype = look_up(kDTypes, dtype, fields.origin() + ": dtype");
  out.eos_ids = read_ids(fields, "eos_token_id");
  out.bos_id = read_id(fields, "bos_token_id");
  out.pad_id = read_id(fields, "pad_token_id");
  // A missing key takes the family's id, an explicit null takes none.
  if (d.eos_id >= 0 && !fields.object().contains("eos_token_id")) out.eos_ids = {d.eos_id};
  if (d.bos_id >= 0 && !fields.object().contains("bos_token_id")) out.bos_id = d.bos_id;
}

/// layer_types if given, else the family's rule.
void read_windows(const JsonFields& fields, const FamilyDefaults& d, ModelConfig& out) {
  out.layer_kinds.assign(out.layers, LayerKind::kFull);
  if (d.window_rule == WindowRule::kNone) return;
  int64_t fallback = fields.has_null("sliding_window") ? 0 : d.sliding_window;
  out.sliding_window = fields.integer({"sliding_window"}, fallback, 0, kMaxPosition);
  bool used = d.window_rule == WindowRule::kAll || fields.boolean({"use_sliding_window"}, false);
  if (!used) out.sliding_window = 0;
  int64_t first =
      d.window_rule == WindowRule::kAll ? 0 : fields.integer({"max_window_layers"}, 28, 0, kMaxLayers);
  if (const json* types = fields.find({"layer_types"})) {
    if (!types->is_array() || static_cast<int64_t>(types->size()) != out.layers)
      fields.fail({"layer_types"}, str("a list of ", out.layers, " names"));
    for (int64_t i = 0; i < out.layers; ++i) {
      if (!(*types)[i].is_string()) fields.fail({"layer_types"}, "names");
      out.layer_kinds[i] = look_up(kLayerKinds, (*types)[i], fields.origin() + ": layer_types");
    }
  } else if (out.sliding_window > 0) {
    for (int64_t i = std::min(first, out.layers); i < out.layers; ++i)
      out.layer_kinds[i] = LayerKind::kSliding;
  }
}

void read_positions(const json& config, const JsonFields& fields, double default_theta, ModelConfig& out) {
  if (out.learned_positions) {
    out.max_model_len = out.max_position_embeddings;
    return;
  }
  const json* nested = nullptr;
  const json* sliding = nullptr;
  if (const json* parameters = fields.find({"rope_parameters"}); parameters && parameters->is_object()) {
    JsonFields by_layer(*parameters, fields.origin() + ": rope_parameters");
    nested = by_layer.find({"full_attention"});
    sliding = by_layer.find({"sliding_attention"});
  }
  out.rope = read_rope(config, out.origin, default_theta, out.max_position_embeddings, nested);
  if (sliding)
    out.rope_sliding = read_rope(config, out.origin, default_theta, out.max_position_embeddings, sliding);
  for (const RopeConfig* rope : {&out.rope, out.rope_sliding ? &*out.rope_sliding : &out.rope}) {
    auto rotated = static_cast<int64_t>(static_cast<double>(out.head_dim) * rope->partial_rotary_factor);
    if (rotated < 2 || rotated % 2)
      throw Error(out.origin, ": head_dim ", out.head_dim, ": ", rotated,
                  " rotary dimensions, expected an even number");
  }
  out.max_model_len = derived_max_length(out.rope, out.max_position_embeddings);
}

void read_if_there(const std::filesystem::path& file, ModelConfig& out,
                   void (*parse)(const json&, const std::string&, ModelConfig&)) {
  if (std::filesystem::exists(file)) parse(read_json(file.string()), file.string(), out);
}

}  // namespace

ModelConfig parse_config(const json& config, const std::string& origin) {
  auto merged = std::make_shared<json>(text_fields(config, origin));
  JsonFields fields(*merged, origin);
  const Family& family = find_family(fields);
  ModelConfig out;
  out.origin = origin;
  out.architecture = family.architecture;
  out.model_type = fields.text({"model_type"}, std::string(family.model_type));
  read_sizes(fields, family.defaults, out);
  family.set(fields, out);
  read_options(fields, family, out);
  read_windows(fields, family.defaults, out);
  read_positions(*merged, fields, family.defaults.theta, out);
  if (const json* quantization = fields.find({"quantization_config", "compression_config"}))
    out.quantization = std::make_shared<json>(*quantization);
  out.raw = std::move(merged);
  return out;
}

void parse_generation_config(const json& config, const std::string& origin, ModelConfig& out) {
  JsonFields fields(config, origin);
  GenerationDefaults& g = out.generation;
  auto number = [&](const char* key, double low, double high) -> std::optional<double> {
    if (!fields.find({key})) return std::nullopt;
    return fields.number({key}, 0, low, high);
  };
  auto integer = [&](const char* key, int64_t low) -> std::optional<int64_t> {
    if (!fields.find({key})) return std::nullopt;
    return fields.integer({key}, 0, low, kMaxPosition);
  };
  g.temperature = number("temperature", 0, 1e6);
  g.top_p = number("top_p", 0, 1);
  g.min_p = number("min_p", 0, 1);
  g.repetition_penalty = number("repetition_penalty", 1e-6, 1e6);
  g.top_k = integer("top_k", -1);
  g.max_new_tokens = integer("max_new_tokens", 1);
  g.eos_ids = read_ids(fields, "eos_token_id");
}

void parse_tokenizer_config(const json& config, const std::string& origin, ModelConfig& out) {
  JsonFields fields(config, origin);
  auto content = [](const json& token) -> std::string {
    if (token.is_string()) return token.get<std::string>();
    if (token.is_object() && token.contains("content") && token["content"].is_string())
      return token["content"].get<std::string>();
    return "";
  };
  const json* eos = fields.find({"eos_token"});
  out.tokenizer_eos_token = eos ? content(*eos) : "";
  const json* added = fields.find({"added_tokens_decoder"});
  if (out.tokenizer_eos_token.empty() || !added || !added->is_object()) return;
  for (const auto& [id, token] : added->items()) {
    if (content(token) != out.tokenizer_eos_token) continue;
    bool digits = !id.empty() && id.size() <= 9 && id.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw Error(origin, ": added_tokens_decoder: '", id.substr(0, 40), "' is not a token id");
    out.tokenizer_eos_ids.push_back(std::stoi(id));
  }
}

ModelConfig load_config(const std::string& folder) {
  std::filesystem::path root(folder);
  std::string file = (root / "config.json").string();
  if (!std::filesystem::exists(file)) throw Error(folder, ": has no config.json");
  ModelConfig out = parse_config(read_json(file), file);
  read_if_there(root / "generation_config.json", out, parse_generation_config);
  read_if_there(root / "tokenizer_config.json", out, parse_tokenizer_config);
  return out;
}

ModelConfig load_model_config(const std::string& path) {
  return std::filesystem::is_directory(path) ? load_config(path) : load_gguf_config(path);
}

std::vector<int32_t> stop_ids(const ModelConfig& config) {
  std::set<int32_t> all;
  for (const auto* ids : {&config.eos_ids, &config.tokenizer_eos_ids, &config.generation.eos_ids})
    all.insert(ids->begin(), ids->end());
  return {all.begin(), all.end()};
}

std::string supported_architectures() {
  std::string out;
  for (const Family& family : families()) out += str(out.empty() ? "" : ", ", family.architecture);
  return out;
}

}  // namespace octavo
