#include "load/rope_config.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "load/json.h"

namespace octavo {
namespace {

using nlohmann::json;

struct TypeName {
  std::string_view name;
  RopeType type;
};
constexpr TypeName kTypes[] = {{"default", RopeType::kDefault},
                               {"linear", RopeType::kLinear},
                               {"dynamic", RopeType::kDynamic},
                               {"llama3", RopeType::kLlama3},
                               {"yarn", RopeType::kYarn}};
constexpr int64_t kMaxPosition = int64_t{1} << 31;

RopeType read_type(const JsonFields& fields) {
  std::string newer = fields.text({"rope_type"}, ""), older = fields.text({"type"}, newer);
  if (newer.empty()) newer = older;
  if (newer != older)
    throw Error(fields.origin(), ": rope_type '", newer, "' and type '", older, "' contradict each other");
  if (newer.empty()) return RopeType::kDefault;
  std::string known;
  for (const TypeName& row : kTypes) {
    if (row.name == newer) return row.type;
    known += str(known.empty() ? "" : ", ", row.name);
  }
  throw Error(fields.origin(), ": unknown rope type '", newer, "'; supported: ", known);
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(const JsonFields& fields, RopeConfig& rope) {
  rope.beta_fast = fields.number({"beta_fast"}, 32, 1e-6, 1e6);
  rope.beta_slow = fields.number({"beta_slow"}, 1, 1e-6, 1e6);
  if (rope.beta_fast <= rope.beta_slow) fields.fail({"beta_fast"}, "more than beta_slow");
  rope.truncate = fields.boolean({"truncate"}, true);
  // Present but 0 counts as absent, as in transformers.
  double mscale = fields.number({"mscale"}, 0, 0, 1e6),
         all_dim = fields.number({"mscale_all_dim"}, 0, 0, 1e6);
  double derived = mscale > 0 && all_dim > 0
                       ? yarn_mscale(rope.factor, mscale) / yarn_mscale(rope.factor, all_dim)
                       : yarn_mscale(rope.factor, 1);
  rope.attention_factor = fields.number({"attention_factor"}, derived, 1e-6, 1e6);
}

void read_llama3(const JsonFields& fields, RopeConfig& rope) {
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
    if (!fields.find({key})) fields.fail({key}, "a number (rope type llama3 needs it)");
  rope.low_freq_factor = fields.number({"low_freq_factor"}, 1, 1e-6, 1e6);
  rope.high_freq_factor = fields.number({"high_freq_factor"}, 4, 1e-6, 1e6);
  if (rope.high_freq_factor <= rope.low_freq_factor)
    fields.fail({"high_freq_factor"}, "more than low_freq_factor");
}

/// The object with the parameters: rope_parameters or rope_scaling; an empty one if neither is given.
json rope_object(const JsonFields& config) {
  const json* newer = config.find({"rope_parameters"});
  const json* older = config.find({"rope_scaling"});
  if (newer && older) {
    JsonFields a(*newer, config.origin()), b(*older, config.origin());
    if (read_type(a) != read_type(b) || a.number({"factor"}, 1, 0, 1e9) != b.number({"factor"}, 1, 0, 1e9))
      throw Error(config.origin(), ": rope_parameters and rope_scaling contradict each other");
  }
  return newer ? *newer : older ? *older : json::object();
}

double read_theta(const JsonFields& config, const JsonFields& fields, double default_theta) {
  double outer = config.number({"rope_theta", "rotary_emb_base"}, default_theta, 1e-3, 1e15);
  double inner = fields.number({"rope_theta"}, outer, 1e-3, 1e15);
  if (config.find({"rope_theta"}) && inner != outer)
    throw Error(config.origin(), ": rope_theta ", outer, " and rope_parameters.rope_theta ", inner,
                " contradict each other");
  return inner;
}

}  // namespace

std::string_view name(RopeType type) {
  for (const TypeName& row : kTypes)
    if (row.type == type) return row.name;
  OCTAVO_CHECK(false, "rope type ", static_cast<int>(type));
}

RopeConfig read_rope(const json& config_json, const std::string& origin, double default_theta,
                     int64_t max_position, const json* parameters) {
  JsonFields config(config_json, origin);
  const json object = parameters ? *parameters : rope_object(config);
  JsonFields fields(object, origin + ": rope parameters");
  RopeConfig rope;
  rope.type = read_type(fields);
  // Layer types nested in rope_parameters each have their own theta.
  rope.theta = parameters ? fields.number({"rope_theta"}, default_theta, 1e-3, 1e15)
                          : read_theta(config, fields, default_theta);
  int64_t top_original = config.integer({"original_max_position_embeddings"}, max_position, 1, kMaxPosition);
  rope.original_max_position =
      fields.integer({"original_max_position_embeddings"}, top_original, 1, kMaxPosition);
  double share = config.number({"partial_rotary_factor", "rotary_pct"}, 1, 1e-3, 1);
  rope.partial_rotary_factor = fields.number({"partial_rotary_factor"}, share, 1e-3, 1);
  if (rope.type == RopeType::kDefault) return rope;
  bool derivable = rope.type == RopeType::kYarn && rope.original_max_position < max_position;
  if (!fields.find({"factor"}) && !derivable) fields.fail({"factor"}, "a number >= 1");
  double ratio = static_cast<double>(max_position) / static_cast<double>(rope.original_max_position);
  rope.factor = fields.number({"factor"}, ratio, 1, 1e6);
  if (rope.type == RopeType::kYarn) read_yarn(fields, rope);
  if (rope.type == RopeType::kLlama3) read_llama3(fields, rope);
  return rope;
}

int64_t derived_max_length(const RopeConfig& rope, int64_t max_position) {
  switch (rope.type) {
    case RopeType::kLinear:
    case RopeType::kDynamic:
      return static_cast<int64_t>(static_cast<double>(max_position) * rope.factor);
    case RopeType::kYarn:
      return static_cast<int64_t>(static_cast<double>(rope.original_max_position) * rope.factor);
    default:
      return max_position;
  }
}

}  // namespace octavo
