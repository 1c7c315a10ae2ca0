// Models by hub id, through the standard Hugging Face cache: what other tools have downloaded is found, and
// what is downloaded here is found by them.
//
//   CACHE/models--ORG--NAME/refs/REVISION            text: the commit
//                          /blobs/ETAG               content; ETAG.incomplete while it is being downloaded
//                          /snapshots/COMMIT/FILE    link to ../../blobs/ETAG, made when the blob is whole
//                          and verified
//   CACHE/.locks/models--ORG--NAME/ETAG.lock         flock: one process downloads a blob at a time
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace octavo {

struct HubOptions {
  std::string cache;                                ///< folder that holds models--*
  std::string endpoint = "https://huggingface.co";  ///< without a trailing slash
  std::string token;                                ///< empty: anonymous. Sent to the endpoint's host only
  std::string revision = "main";                    ///< branch, tag or commit
  bool offline = false;                             ///< use the cache alone
  bool progress = false;                            ///< draw a progress bar on stderr
  int parallel = 4;                                 ///< files downloaded at a time
};

/// From HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; HF_TOKEN, HF_TOKEN_PATH and the token
/// file; HF_ENDPOINT; HF_HUB_OFFLINE. `progress` is whether stderr is a terminal.
HubOptions hub_options_from_environment();

/// A local folder or GGUF file for what the user named as MODEL:
///   an existing path           itself: a local path always wins
///   ORG/NAME or NAME           the snapshot folder with config, tokenizer and safetensors
///   ORG/NAME:QUANT             the one GGUF file of that quantisation, e.g. :Q4_K_M (its first part, if
///   split) ORG/NAME:FILE.gguf, ORG/NAME/FILE.gguf    that file
/// Downloads what the cache lacks. If the hub cannot be reached, a complete snapshot in the cache serves.
/// Error naming the model, and the file where there is one.
std::string resolve_model(const std::string& model, const HubOptions& options);

/// The parts, for tests.
struct HubId {
  std::string repo;     ///< "org/name" or "name"
  std::string variant;  ///< GGUF quantisation or file, or empty
};
/// Error if it is not an id.
HubId parse_hub_id(const std::string& model);

/// Names in the hub's answer to /api/models/REPO/revision/REVISION; not checked yet. Error if it has none.
std::vector<std::string> listed_files(const nlohmann::json& listing, const HubId& id);

/// Of a repository's files those that a model needs. With an index, its shards are not known yet and not
/// included. Error listing what there is if `variant` picks no or several GGUF models.
std::vector<std::string> needed_files(const std::vector<std::string>& files, const HubId& id);

}  // namespace octavo
