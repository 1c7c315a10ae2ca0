// octavo quantize: a Hugging Face folder to a compressed-tensors folder that vLLM and transformers read too.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/statistics.h"
#include "frontend/load_engine.h"
#include "frontend/model_text.h"
#include "load/json.h"
#include "model/quantise.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShardBytes = 5'000'000'000;
constexpr size_t kWorkspaceBytes = size_t{4} << 30;  // mapped without reserve
constexpr int64_t kWindow = 512;                     // tokens of a calibration window

struct QuantizeOptions {
  EngineOptions engine;
  std::string output, scheme, scales = "minmax", calibrate;
  int64_t group = 0;  ///< as given; 0: the scheme's default
  int64_t calibration_tokens = 8192;
  std::vector<std::string> ignore = {"lm_head"};
};

/// Where the result grows; gone again unless it was completed.
class PartialFolder {
 public:
  explicit PartialFolder(const std::string& final_path) : final_(fs::path(final_path).lexically_normal()) {
    if (!final_.has_filename()) final_ = final_.parent_path();  // "out/"
    std::error_code error;
    if (fs::exists(final_, error) && !(fs::is_directory(final_, error) && fs::is_empty(final_, error)))
      throw Error(final_path, ": exists already; give a folder that is new or empty");
    path_ = final_;
    path_ += str(".partial-", getpid());
    if (!fs::create_directories(path_, error))
      throw Error(path_.string(), ": cannot be created: ", error.message());
  }
  ~PartialFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  std::string path() const { return path_.string(); }
  void complete() {
    std::error_code error;
    fs::remove(final_, error);  // an empty folder
    fs::rename(path_, final_, error);
    if (error) throw Error(final_.string(), ": cannot be created: ", error.message());
    path_.clear();
  }

 private:
  fs::path final_, path_;
};

bool holds_weights(const std::string& name) {
  for (const char* end : {".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth",
                          ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt"})
    if (name.ends_with(end)) return true;
  return false;
}

/// Tokenizer, template, licence and so on: every regular file but weights and config.json.
void copy_other_files(const std::string& from, const std::string& to) {
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with(".") || name == "config.json" || holds_weights(name))
      continue;
    std::error_code error;
    if (!fs::copy_file(entry.path(), fs::path(to) / name, error))
      throw Error(entry.path().string(), ": cannot be copied to ", to, ": ", error.message());
  }
}

void write_config(const std::string& from, const std::string& to, const QuantiseOptions& options,
                  const std::vector<std::string>& ignored) {
  std::ifstream file(from + "/config.json");
  auto config = nlohmann::ordered_json::parse(file, nullptr, false);  // was checked when it was loaded
  OCTAVO_CHECK(config.is_object());
  config["quantization_config"] = quant::quantization_config(options.scheme, options.group, ignored);
  write_file(to + "/config.json", config.dump(2));
}

QuantiseOptions checked_options(const QuantizeOptions& o) {
  QuantiseOptions out{.scheme = quant::output_scheme(o.scheme), .ignore = o.ignore};
  if (o.group && !out.scheme.grouped)
    throw Error("--group-size: ", o.scheme, " has one scale for each output, and no groups");
  constexpr int64_t kDefault = 32;
  const int64_t group = o.group ? o.group : kDefault;
  if (group != -1 && group != 32 && group != 64 && group != 128)
    throw Error("--group-size ", group, ": expected 32, 64, 128, or -1 for one scale for each output");
  out.group = out.scheme.grouped && group > 0 ? group : 0;
  if (o.scales != "minmax" && o.scales != "mse")
    throw Error("--scales ", o.scales, ": expected minmax or mse");
  out.scales = o.scales == "mse" ? quant::Scales::kMse : quant::Scales::kMinMax;
  if (o.calibration_tokens < kWindow)
    throw Error("--calibration-tokens ", o.calibration_tokens, ": expected at least ", kWindow);
  return out;
}

/// Windows evenly spaced over the text, as many as are asked for.
std::vector<int32_t> calibration_ids(const std::string& path, const Text& text, int64_t wanted) {
  const std::string content = read_file("--calibrate", path);
  if (content.empty()) throw Error("--calibrate ", path, ": is empty");
  std::vector<int32_t> ids = text.encode(content, false), out;
  const int64_t windows = wanted / kWindow, all = static_cast<int64_t>(ids.size());
  if (all <= windows * kWindow) {
    spdlog::warn("--calibrate {}: {} tokens, fewer than the {} that are wanted", path, all,
                 windows * kWindow);
    return ids;
  }
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t at = windows > 1 ? (all - kWindow) * i / (windows - 1) : 0;
    out.insert(out.end(), ids.begin() + at, ids.begin() + at + kWindow);
  }
  return out;
}

struct Calibration {
  std::unique_ptr<Model> model;
  std::unique_ptr<Calibrator> calibrator;
};

Calibration start_calibration(const QuantizeOptions& o, const std::string& path, const ModelConfig& config,
                              OpContext& ctx) {
  Calibration out;
  const std::unique_ptr<Text> text = load_text(path, config, o.engine);
  std::vector<int32_t> ids = calibration_ids(o.calibrate, *text, o.calibration_tokens);
  for (int32_t id : ids)
    if (id >= config.vocab)
      throw Error(path, ": the tokenizer gives id ", id, " of a vocabulary of ", config.vocab);
  out.model = load_model(config, open_checkpoint(path), ctx, {.max_model_len = kWindow});
  // A bar for each pass over the text: how many there are depends on the memory of X^T X.
  const int64_t total = std::ssize(ids);
  auto pass = std::make_shared<std::optional<Progress>>();
  auto ran = [pass, total](int64_t tokens) {
    if (!*pass) pass->emplace("calibration tokens", total);
    (*pass)->advance(tokens);
    if ((*pass)->complete()) pass->reset();
  };
  out.calibrator = std::make_unique<Calibrator>(*out.model, ctx, std::move(ids),
                                                CalibrationOptions{.window = kWindow, .ran = ran});
  return out;
}

int quantize(const QuantizeOptions& o) {
  if (o.engine.model.empty() || o.output.empty()) throw Error("quantize needs IN and OUT: two folders");
  if (o.scheme.empty()) throw Error("--scheme is missing: w8a8, w4a8, w4a16 or fp8");
  const QuantiseOptions options = checked_options(o);
  const std::string path = resolve_model_path(o.engine);
  if (!fs::is_directory(path))
    throw Error(path, ": not a Hugging Face folder (GGUF files cannot be quantised)");
  const ModelConfig config = load_model_config(path);
  PartialFolder folder(o.output);
  const Binding binding = thread_binding(o.engine);
  Team team({binding.ranks[0], binding.pin});
  team.bind_caller();
  Workspace workspace(kWorkspaceBytes);
  OpContext ctx{team, workspace, kernels::select()};

  Checkpoint checkpoint = open_checkpoint(path);
  Calibration calibration;
  if (!o.calibrate.empty()) calibration = start_calibration(o, path, config, ctx);
  const QuantisePlan plan = plan_quantised(config, checkpoint, ctx, options, calibration.calibrator.get());
  size_t total = 0;
  for (const OutputGroup& group : plan.groups)
    for (const OutputTensor& tensor : group.tensors) total += tensor.bytes();
  {
    Progress progress("bytes", static_cast<int64_t>(total));
    write_safetensors(folder.path(), plan.groups, kShardBytes,
                      [&](size_t bytes) { progress.advance(static_cast<int64_t>(bytes)); });
  }
  copy_other_files(path, folder.path());
  write_config(path, folder.path(), options, plan.ignored);
  folder.complete();
  printf("%s: %lld layers as %s, %.1f MB\n", o.output.c_str(), static_cast<long long>(plan.layers),
         o.scheme.c_str(), static_cast<double>(total) / 1e6);
  return 0;
}

}  // namespace

Command quantize_command() {
  return {
      "quantize", "Write a quantised copy of a model (compressed-tensors)", [](CLI::App& app) {
        auto o = std::make_shared<QuantizeOptions>();
        app.add_option("in,--model", o->engine.model, "Hugging Face folder or hub id")->type_name("IN");
        app.add_option("out,--output", o->output, "Folder to write; must be new or empty")->type_name("OUT");
        app.add_option("--scheme", o->scheme, "w8a8, w4a8, w4a16 or fp8");
        app.add_option("--group-size", o->group,
                       "Inputs that share a scale, of w4a8 and w4a16: 32 (default), 64, 128; -1: all")
            ->type_name("N");
        app.add_option("--ignore", o->ignore,
                       "Layers to leave: names, ends of names, or re:REGEX (default: lm_head)")
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        app.add_option("--scales", o->scales, "minmax, or mse: those of the least squared error")
            ->capture_default_str();
        app.add_option("--calibrate", o->calibrate,
                       "Text file: smooth activations into weights, and make up for rounding errors");
        app.add_option("--calibration-tokens", o->calibration_tokens, "Tokens of it to run")
            ->capture_default_str();
        app.add_option("--revision", o->engine.revision, "Hub revision");
        app.add_option("--tokenizer", o->engine.tokenizer, "For --calibrate, if not the model's");
        app.add_option("--cpu-threads-bind", o->engine.cpu_threads_bind, "As of serve")
            ->capture_default_str();
        return [=] { return quantize(*o); };
      }};
}

}  // namespace octavo
