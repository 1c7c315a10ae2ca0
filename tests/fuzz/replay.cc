// All fuzz targets in one program without libFuzzer, for builds with any compiler:
//   fuzz_replay TARGET MUTATIONS FILE...
// runs the target on each file and on MUTATIONS changed copies of it. The changes depend on the file alone,
// so a finding repeats. FUZZ_TARGETS is X(name) for each target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#define X(name) extern "C" int name(const uint8_t* data, size_t size);
FUZZ_TARGETS
#undef X

namespace {

using Target = int (*)(const uint8_t*, size_t);

Target find(const char* wanted) {
#define X(name) \
  if (std::strcmp(wanted, #name) == 0) return name;
  FUZZ_TARGETS
#undef X
  return nullptr;
}

/// A few bytes changed, removed, doubled, or the end cut off.
std::string mutated(std::string bytes, std::mt19937& random) {
  for (int changes = 1 + static_cast<int>(random() % 4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = random() % bytes.size(), count = 1 + random() % 8;
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
        break;
      case 2:
        bytes.erase(at, count);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, count));
        break;
      default:
        if (random() % 8 == 0) bytes.resize(at);
    }
  }
  return bytes;
}

/// The copy on the heap ends where the input does, so that a sanitizer sees a read past it.
void run(Target target, const std::string& bytes) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  target(copy.data(), copy.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Target target = argc > 2 ? find(argv[1]) : nullptr;
  if (!target) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET MUTATIONS FILE...\n");
    return 2;
  }
  int64_t runs = 0;
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::fprintf(stderr, "%s\n", argv[i]);  // the last one named is the one at fault
    run(target, bytes);
    std::mt19937 random(static_cast<uint32_t>(bytes.size()));
    for (int mutation = std::atoi(argv[2]); mutation > 0; --mutation, ++runs)
      run(target, mutated(bytes, random));
    ++runs;
  }
  std::printf("number_of_executed_units: %lld\n", static_cast<long long>(runs));
  return 0;
}
