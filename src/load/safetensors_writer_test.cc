#include "load/safetensors_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "load/checkpoint.h"
#include "load/test_files.h"

namespace octavo {
namespace {

using test::contains;
using test::error_of;
using test::TempFolder;

/// A group of one I32 tensor [n] that counts up from `first`.
OutputGroup counting(const std::string& name, int32_t first, int64_t n) {
  return {{{name, DType::kI32, {n}}}, [first, n](const std::vector<std::byte*>& out) {
            for (int32_t i = 0; i < n; ++i) {
              const int32_t value = first + i;
              std::memcpy(out[0] + i * sizeof value, &value, sizeof value);
            }
          }};
}

TEST(SafetensorsWriter, ReadsBackFromOneFileAndFromShards) {
  for (size_t shard_bytes : {size_t{1} << 30, size_t{100}, size_t{1}}) {
    TempFolder folder;
    size_t wrote = 0;
    std::vector<OutputGroup> groups = {counting("a", 0, 3), counting("b", 100, 20), counting("c", 200, 5)};
    groups.push_back({{{"pair.q", DType::kI8, {2, 3}}, {"pair.s", DType::kBF16, {2, 1}}},
                      [](const std::vector<std::byte*>& out) {
                        std::memset(out[0], 7, 6);
                        std::memset(out[1], 1, 4);
                      }});
    write_safetensors(folder.path(), groups, shard_bytes, [&](size_t bytes) { wrote += bytes; });
    EXPECT_EQ(wrote, 3 * 4u + 20 * 4 + 5 * 4 + 10);
    const bool sharded = std::filesystem::exists(folder / "model.safetensors.index.json");
    EXPECT_EQ(sharded, shard_bytes < wrote);
    EXPECT_EQ(std::filesystem::exists(folder / "model-00004-of-00004.safetensors"), shard_bytes == 1);
    Checkpoint read = open_safetensors(folder.path());
    EXPECT_EQ(read.names(), (std::vector<std::string>{"a", "b", "c", "pair.q", "pair.s"}));
    EXPECT_EQ(read.get("b").as<int32_t>()[19], 119);
    EXPECT_EQ(read.get("c").as<int32_t>()[0], 200);
    const TensorView q = read.get("pair.q"), s = read.get("pair.s");
    EXPECT_EQ(q.dtype, DType::kI8);
    EXPECT_TRUE(q.shape == (Shape{2, 3}) && s.shape == (Shape{2, 1}));
    EXPECT_EQ(q.as<int8_t>()[5], 7);
    EXPECT_EQ(s.as<uint16_t>()[1], 0x0101);
  }
}

TEST(SafetensorsWriter, ErrorsNameTheFile) {
  EXPECT_TRUE(contains(
      error_of([] { write_safetensors("/nowhere/at/all", {counting("a", 0, 1)}, 1, [](size_t) {}); }),
      "/nowhere/at/all/model.safetensors: cannot be written"));
  // A full disk.
  std::filesystem::path full = "/dev/full";
  if (!std::filesystem::exists(full)) GTEST_FAIL() << "/dev/full is missing";
  TempFolder folder;
  std::filesystem::create_symlink(full, folder.path() / "model.safetensors");
  EXPECT_TRUE(contains(
      error_of([&] { write_safetensors(folder.path(), {counting("a", 0, 100000)}, 1 << 30, [](size_t) {}); }),
      "No space left"));
}

}  // namespace
}  // namespace octavo
