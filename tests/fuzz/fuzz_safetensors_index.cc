// model.safetensors.index.json of a folder that has one shard: the index names what is opened.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "attempt.h"
#include "load/checkpoint.h"

namespace {

/// A folder with the shard a.safetensors (one tensor, "t"), removed at exit.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "octavo-fuzz-XXXXXX").string();
  Folder() {
    if (!mkdtemp(path.data())) std::abort();
    const std::string header = R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    std::ofstream out(path + "/a.safetensors", std::ios::binary);
    out << std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "1234";
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const Folder folder;
  std::ofstream(folder.path + "/model.safetensors.index.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  octavo::fuzz::attempt([&] {
    octavo::Checkpoint checkpoint = octavo::open_safetensors(folder.path);
    if (checkpoint.names().size() > 1) std::abort();
  });
  return 0;
}
