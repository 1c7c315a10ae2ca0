// A hub's answer to "which files has this model": the input's first line is the MODEL that the user named,
// the rest the JSON. No name may leave the folder that it is joined to.
#include <cstdlib>
#include <filesystem>

#include "attempt.h"
#include "load/hub_download.h"
#include "load/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace octavo;
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  const size_t line = std::min(input.find('\n'), size);
  fuzz::attempt([&] {
    const HubId id = parse_hub_id(std::string(input.substr(0, line)));
    const nlohmann::json listing = parse_json(input.substr(std::min(line + 1, size)), "fuzz");
    for (const std::string& file : needed_files(listed_files(listing, id), id)) {
      check_file_name(file, "fuzz");
      const std::filesystem::path path = (std::filesystem::path("/snapshot") / file).lexically_normal();
      if (!path.string().starts_with("/snapshot/")) std::abort();
    }
  });
  return 0;
}
