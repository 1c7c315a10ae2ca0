#include "load/hub.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "load/hub_download.h"
#include "load/hub_http.h"
#include "load/json.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxListing = 64 << 20;
constexpr size_t kMaxRef = 1 << 10;

std::string environment(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value && *value) return value;
  return "";
}

bool is_set(std::initializer_list<const char*> names) {
  std::string value = environment(names);
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_commit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Names that a model may need beside its weights, in the repository's root or one folder below.
bool is_side_file(const std::string& file) {
  static const std::set<std::string> kNames = {"config.json",
                                               "generation_config.json",
                                               "tokenizer.json",
                                               "tokenizer_config.json",
                                               "vocab.json",
                                               "merges.txt",
                                               "vocab.txt",
                                               "special_tokens_map.json",
                                               "added_tokens.json",
                                               "tokenizer.model",
                                               "tekken.json",
                                               "chat_template.jinja",
                                               "processor_config.json",
                                               "preprocessor_config.json",
                                               "chat_template.json",
                                               "quantize_config.json",
                                               "modules.json",
                                               "1_Pooling/config.json",
                                               "config_sentence_transformers.json"};
  return kNames.contains(file) ||
         (file.starts_with("additional_chat_templates/") && file.ends_with(".jinja"));
}

/// Name of a split GGUF set's first part without number, or the file itself: parts of one model share it.
std::string gguf_stem(const std::string& file) {
  std::string stem = file.substr(0, file.size() - 5);
  // -00001-of-00003
  if (stem.size() > 15 && stem[stem.size() - 15] == '-' && stem.compare(stem.size() - 9, 4, "-of-") == 0)
    return stem.substr(0, stem.size() - 15);
  return stem;
}

/// Whether QUANT is the last dash- or dot-separated part of the stem, as in model-Q4_K_M.gguf or
/// model.q8_0.gguf.
bool has_quant(const std::string& stem, const std::string& quant) {
  std::string text = lower(stem), wanted = lower(quant);
  if (!text.ends_with(wanted)) return false;
  size_t before = text.size() - wanted.size();
  return before == 0 || text[before - 1] == '-' || text[before - 1] == '.' || text[before - 1] == '/';
}

std::vector<std::string> pick_gguf(const std::vector<std::string>& files, const HubId& id) {
  std::vector<std::string> picked;
  std::set<std::string> stems, all;
  for (const std::string& file : files) {
    if (!file.ends_with(".gguf")) continue;
    std::string stem = gguf_stem(file);
    all.insert(stem);
    bool named = id.variant.ends_with(".gguf") && gguf_stem(id.variant) == stem;
    if (!id.variant.empty() && !named && !has_quant(stem, id.variant)) continue;
    picked.push_back(file);
    stems.insert(stem);
  }
  if (stems.size() == 1) {
    std::sort(picked.begin(), picked.end());
    return picked;
  }
  std::string list;
  for (const std::string& stem : stems.empty() ? all : stems) list += str("\n  ", stem, ".gguf");
  if (all.empty()) throw Error(id.repo, ": has neither safetensors nor GGUF files");
  throw Error(id.repo, ": '", id.variant, "' picks ", stems.size(), " GGUF models; name one as ", id.repo,
              ":QUANT or ", id.repo, ":FILE.gguf:", list);
}

json fetch_listing(const HubOptions& options, const HubId& id) {
  HttpClient client(options.token);
  std::string url = options.endpoint + "/api/models/" + encode_path(id.repo) + "/revision/" +
                    encode_segment(options.revision);
  HttpResponse response = client.get(url, kMaxListing);
  if (response.status != 200 || !response.failure.empty())
    throw_http_error(str(id.repo, " (revision ", options.revision, ")"), response.status, response.failure);
  return parse_json(response.body, url);
}

/// Shards that the index of a snapshot names.
std::vector<std::string> shards_of(const fs::path& index) {
  std::set<std::string> shards;
  json parsed = read_json(index.string());
  JsonFields fields(parsed, index.string());
  const json* map = fields.find({"weight_map"});
  if (!map || !map->is_object()) throw Error(index.string(), ": has no weight_map");
  for (const json& file : *map) {
    if (!file.is_string()) throw Error(index.string(), ": weight_map holds something else than file names");
    check_file_name(file.get<std::string>(), index.string());
    shards.insert(file.get<std::string>());
  }
  return {shards.begin(), shards.end()};
}

/// The commit that the cache has for the revision, or "".
std::string cached_commit(const HubOptions& options, const std::string& repo) {
  if (is_commit(options.revision)) return options.revision;
  fs::path ref = fs::path(repo_folder(options, repo)) / "refs" / options.revision;
  if (!fs::is_regular_file(ref)) return "";
  std::string text = read_text_file(ref.string(), kMaxRef);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return is_commit(text) ? text : "";
}

void write_ref(const HubOptions& options, const HubSnapshot& snapshot) {
  if (is_commit(options.revision)) return;
  fs::path ref = fs::path(repo_folder(options, snapshot.repo)) / "refs" / options.revision;
  if (cached_commit(options, snapshot.repo) == snapshot.commit) return;
  fs::create_directories(ref.parent_path());
  // Two threads of one process may resolve the same id at once: each writes a file of its own.
  static std::atomic<uint64_t> writes{0};
  fs::path aside = ref.string() + str(".new-", getpid(), "-", writes++);
  std::ofstream(aside) << snapshot.commit;
  fs::rename(aside, ref);
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> out;
  if (!fs::is_directory(folder)) return out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (fs::exists(entry.path()) && !fs::is_directory(entry.path()))
      out.push_back(entry.path().lexically_relative(folder).string());
  return out;
}

/// What a snapshot gives to the caller; "" if the cache lacks a file of it.
std::string complete_path(const HubOptions& options, const HubSnapshot& snapshot, const HubId& id) {
  fs::path folder = snapshot_folder(options, snapshot);
  std::vector<std::string> files = files_below(folder), needed;
  try {
    needed = needed_files(files, id);
    if (fs::exists(folder / "model.safetensors.index.json") && !fs::exists(folder / "model.safetensors"))
      for (const std::string& shard : shards_of(folder / "model.safetensors.index.json"))
        if (!fs::exists(folder / shard)) return "";
  } catch (const Error&) {
    return "";
  }
  if (needed.front().ends_with(".gguf")) return (folder / needed.front()).string();
  return fs::exists(folder / "config.json") ? folder.string() : "";
}

std::string from_cache(const HubOptions& options, const HubId& id) {
  std::string commit = cached_commit(options, id.repo);
  return commit.empty() ? "" : complete_path(options, {id.repo, commit}, id);
}

std::string from_hub(const HubOptions& options, const HubId& id) {
  json listing = fetch_listing(options, id);
  HubSnapshot snapshot{id.repo, JsonFields(listing, id.repo).text({"sha"}, "")};
  if (!is_commit(snapshot.commit)) throw Error(id.repo, ": the hub's answer names no commit");
  std::vector<std::string> files = needed_files(listed_files(listing, id), id);
  download_files(options, snapshot, files);
  fs::path index = fs::path(snapshot_folder(options, snapshot)) / "model.safetensors.index.json";
  if (std::count(files.begin(), files.end(), index.filename().string()))
    download_files(options, snapshot, shards_of(index));
  write_ref(options, snapshot);
  std::string path = complete_path(options, snapshot, id);
  if (path.empty()) throw Error(id.repo, ": has no config.json");
  return path;
}

std::string resolve_id(const HubOptions& options, const HubId& id) {
  if (options.offline) {
    std::string path = from_cache(options, id);
    if (path.empty())
      throw Error("model '", id.repo, "': not in the cache ", options.cache,
                  ", and HF_HUB_OFFLINE forbids to download it");
    return path;
  }
  // A commit never changes: once it is complete, the hub has nothing to add.
  if (is_commit(options.revision))
    if (std::string path = from_cache(options, id); !path.empty()) return path;
  try {
    return from_hub(options, id);
  } catch (const Error& e) {
    std::string path = from_cache(options, id);
    if (path.empty()) throw;
    spdlog::warn("{}; using the copy in the cache", e.what());
    return path;
  }
}

}  // namespace

HubOptions hub_options_from_environment() {
  HubOptions out;
  std::string home = environment({"HF_HOME"});
  if (home.empty()) {
    std::string base = environment({"XDG_CACHE_HOME"});
    if (base.empty()) base = environment({"HOME"}) + "/.cache";
    home = base + "/huggingface";
  }
  out.cache = environment({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (out.cache.empty()) out.cache = home + "/hub";
  out.token = environment({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  std::string token_file = environment({"HF_TOKEN_PATH"});
  if (token_file.empty()) token_file = home + "/token";
  if (out.token.empty() && fs::is_regular_file(token_file)) out.token = read_text_file(token_file, kMaxRef);
  std::erase_if(out.token, [](unsigned char c) { return std::isspace(c); });
  std::string endpoint = environment({"HF_ENDPOINT"});
  if (!endpoint.empty()) out.endpoint = endpoint;
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  out.offline = is_set({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"});
  out.progress = isatty(STDERR_FILENO);
  return out;
}

HubId parse_hub_id(const std::string& model) {
  HubId out{model, ""};
  size_t first = model.find('/'), second = first == std::string::npos ? first : model.find('/', first + 1);
  if (size_t colon = model.find(':'); colon != std::string::npos) {
    out = {model.substr(0, colon), model.substr(colon + 1)};
  } else if (second != std::string::npos && model.ends_with(".gguf")) {
    out = {model.substr(0, second), model.substr(second + 1)};
  }
  auto word = [](const std::string& part) {
    bool plain = std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    // "--" separates the parts in the cache's folder names.
    return plain && !part.empty() && part.size() <= 96 && part[0] != '.' && part[0] != '-' &&
           part.back() != '.' && part.find("..") == std::string::npos && part.find("--") == std::string::npos;
  };
  size_t slash = out.repo.find('/');
  bool valid = slash == std::string::npos
                   ? word(out.repo)
                   : word(out.repo.substr(0, slash)) && word(out.repo.substr(slash + 1));
  if (!valid)
    throw Error("model '", model.substr(0, 200),
                "': there is no such folder or file, and it is not a hub id (ORG/NAME or ORG/NAME:QUANT)");
  if (!out.variant.empty()) check_file_name(out.variant, out.repo);
  return out;
}

std::vector<std::string> listed_files(const json& listing, const HubId& id) {
  std::vector<std::string> files;
  JsonFields fields(listing, id.repo);
  const json* siblings = fields.find({"siblings"});
  if (!siblings || !siblings->is_array()) throw Error(id.repo, ": the hub's answer lists no files");
  for (const json& item : *siblings) files.push_back(JsonFields(item, id.repo).text({"rfilename"}, ""));
  return files;
}

std::vector<std::string> needed_files(const std::vector<std::string>& files, const HubId& id) {
  auto has = [&](const char* name) { return std::count(files.begin(), files.end(), name) > 0; };
  std::vector<std::string> weights;
  if (has("model.safetensors")) {
    weights = {"model.safetensors"};
  } else if (has("model.safetensors.index.json")) {
    weights = {"model.safetensors.index.json"};
  } else {
    for (const std::string& file : files)
      if (file.ends_with(".safetensors") && file.find('/') == std::string::npos) weights.push_back(file);
  }
  if (!id.variant.empty() || weights.empty()) return pick_gguf(files, id);
  for (const std::string& file : files)
    if (is_side_file(file)) weights.push_back(file);
  return weights;
}

std::string resolve_model(const std::string& model, const HubOptions& options) {
  if (std::error_code error; fs::exists(model, error)) return model;
  HubId id = parse_hub_id(model);
  if (!is_commit(options.revision)) check_file_name(options.revision, "revision");
  try {
    return resolve_id(options, id);
  } catch (const fs::filesystem_error& e) {
    throw Error("model '", model, "': ", e.what());
  }
}

}  // namespace octavo
