// Files of one hub repository into the cache, whole or not at all.
#pragma once

#include <string>
#include <vector>

#include "load/hub.h"

namespace octavo {

struct HubSnapshot {
  std::string repo;    ///< "org/name"
  std::string commit;  ///< 40 hex digits
};

/// CACHE/models--ORG--NAME
std::string repo_folder(const HubOptions& options, const std::string& repo);
std::string snapshot_folder(const HubOptions& options, const HubSnapshot& snapshot);

/// Makes every file exist in the snapshot folder. Several at a time; each is resumed where an earlier try
/// broke off, checked for size and, where the hub gives it (LFS sha256, git sha1), for content, and only then
/// linked into place.
void download_files(const HubOptions& options, const HubSnapshot& snapshot,
                    const std::vector<std::string>& files);

/// Error unless `name` is a relative path that stays below the folder it is joined to.
void check_file_name(const std::string& name, const std::string& origin);

/// Error that says what an HTTP status means for `what`.
[[noreturn]] void throw_http_error(const std::string& what, long status, const std::string& failure);

}  // namespace octavo
