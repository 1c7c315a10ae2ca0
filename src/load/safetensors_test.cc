#include "load/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "load/dequantise.h"
#include "load/test_files.h"

namespace octavo {
namespace {

using test::contains;
using test::error_of;
using test::safetensors_bytes;
using test::TempFolder;
namespace fs = std::filesystem;

const std::string kTwo =  // a: F32 [2], b: BF16 [2, 1]
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}})";

std::string two_tensors() {
  float a[2] = {1.5f, -2};
  uint16_t b[2] = {to_bf16(3).bits, to_bf16(-4).bits};
  std::string data(12, '\0');
  std::memcpy(data.data(), a, 8);
  std::memcpy(data.data() + 8, b, 4);
  return safetensors_bytes(kTwo, data);
}

TEST(Safetensors, ReadsAndTracksUse) {
  TempFolder folder;
  folder.write("model.safetensors", two_tensors());
  Checkpoint checkpoint = open_safetensors(folder.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(dequantise(checkpoint.require("a", {2})), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(checkpoint.finish(), std::vector<std::string>{"b"});
  EXPECT_EQ(dequantise(checkpoint.get("b")), (std::vector<float>{3, -4}));
  EXPECT_TRUE(checkpoint.unused().empty());
  EXPECT_EQ(checkpoint.find("b")->dtype, DType::kBF16);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
  EXPECT_TRUE(contains(error_of([&] { checkpoint.get("c"); }), "tensor 'c' is missing"));
  std::string shape = error_of([&] { checkpoint.require("a", {3}); });
  EXPECT_TRUE(contains(shape, "model.safetensors: tensor 'a' has shape [2], expected [3]"));
}

TEST(Safetensors, AllMissingTensorsAreListed) {
  TempFolder folder;
  folder.write("model.safetensors", two_tensors());
  Checkpoint checkpoint = open_safetensors(folder.path());
  EXPECT_EQ(dequantise(checkpoint.require("x", {3})), (std::vector<float>{0, 0, 0}));
  checkpoint.require("y", {2, 2});
  EXPECT_TRUE(contains(error_of([&] { checkpoint.finish(); }), "2 tensors are missing: x, y"));
}

TEST(Safetensors, UnalignedDataIsRealigned) {
  TempFolder folder;
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  float value = 7;
  std::string data(5, '\1');
  std::memcpy(data.data() + 1, &value, 4);
  folder.write("model.safetensors", safetensors_bytes(header, data));
  Checkpoint checkpoint = open_safetensors(folder.path());
  TensorView b = checkpoint.get("b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % 4, 0u);
  EXPECT_EQ(*b.as<float>(), 7);
}

// An empty tensor has no rows to count; its other dimensions may not overflow either.
TEST(Safetensors, EmptyTensorsAreHarmless) {
  TempFolder folder;
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("b":{"dtype":"F32","shape":[5,0],"data_offsets":[1,1]}})";
  folder.write("model.safetensors", safetensors_bytes(header, "x"));
  Checkpoint checkpoint = open_safetensors(folder.path());
  EXPECT_EQ(checkpoint.get("b").shape.elements(), 0);
  folder.write(
      "model.safetensors",
      safetensors_bytes(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}})", ""));
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "'a': shape overflows"));
}

struct Bad {
  std::string header, message;
  size_t data = 12;
};

// BL-34: nothing in the header is trusted.
TEST(Safetensors, BadHeadersAreRefused) {
  auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  std::string deep(10000, '[');
  const Bad kBad[] = {
      {tensor("F32", "[1000,1000]", "[0,12]"),
       "'w': data_offsets span 12 bytes, F32 [1000, 1000] takes 4000000"},
      {tensor("F32", "[1]", "[8,4]"), "'w': data_offsets [8, 4]"},
      {tensor("F32", "[1]", "[-4,0]"), "'w': data_offsets: expected a whole number"},
      {tensor("F32", "[1]", "[0.0,4]"), "'w': data_offsets: expected a whole number"},
      {tensor("F32", "[1]", "[4]"), "'w': data_offsets are not two numbers"},
      {tensor("F32", "[1]", "4"), "'w': data_offsets are not two numbers"},
      {tensor("F32", "[4]", "[0,16]"), "do not lie within the 12 bytes"},
      {tensor("F32", "[2]", "[4,12]"), "hole of 4 bytes before tensor 'w'"},
      {tensor("F32", "[2]", "[0,8]"), "4 bytes after the last tensor"},
      {tensor("F32", "[-1]", "[0,12]"), "'w': shape: expected a whole number"},
      {tensor("F32", "[4294967296,4294967296]", "[0,12]"), "'w': shape overflows"},
      {tensor("U8", "[18446744073709551615]", "[0,12]"), "'w': shape overflows"},
      {tensor("F32", "[9223372036854775808,0]", "[0,0]"), "'w': shape overflows", 0},
      {tensor("F32", "[1,1,1,1,1,1,1,1,3]", "[0,12]"), "'w': 9 dimensions"},
      {tensor("F32", "3", "[0,12]"), "'w': shape is not an array"},
      {tensor("F99", "[3]", "[0,12]"), "'w': unknown dtype 'F99'"},
      {tensor("Q4_0", "[32]", "[0,12]"), "'w': unknown dtype 'Q4_0'"},
      {R"({"w":{"shape":[3],"data_offsets":[0,12]}})", "'w': unknown dtype ''"},
      {R"({"w":{"dtype":"F32","data_offsets":[0,12]}})", "'w': has no shape"},
      {R"({"w":[]})", "'w'"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       "tensor 'b' overlaps"},
      {R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
       "key \"w\" appears twice"},
      {"{\"w\":", "not valid JSON"},
      {"{\"\xff\xfe\":{}}", "not valid JSON"},
      {"[1,2]", "does not start with '{'"},
      {"{\"w\":" + deep, "nested deeper"},
      {"{}", "12 bytes after the last tensor"},
  };
  TempFolder folder;
  for (const Bad& bad : kBad) {
    std::string path =
        folder.write("model.safetensors", safetensors_bytes(bad.header, std::string(bad.data, 'x')));
    std::string message = error_of([&] { open_safetensors(folder.path()); });
    EXPECT_TRUE(contains(message, bad.message)) << bad.header.substr(0, 100);
    EXPECT_TRUE(contains(message, path));
  }
}

TEST(Safetensors, BadHeaderLengthsAreRefused) {
  TempFolder folder;
  for (uint64_t length :
       {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, ~uint64_t{0} - 2, ~uint64_t{0}, uint64_t{500}}) {
    folder.write("model.safetensors", safetensors_bytes(kTwo, std::string(12, 'x'), length));
    EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "header length")) << length;
  }
  folder.write("model.safetensors", "1234567");
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "too short"));
  folder.write("model.safetensors", "");
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "too short"));
}

TEST(Safetensors, CutAtEveryByte) {
  std::string whole = two_tensors();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::vector<const std::byte*> data;
    std::span<const std::byte> part(reinterpret_cast<const std::byte*>(whole.data()), size);
    EXPECT_THROW(parse_safetensors(part, "f", data), Error) << size;
  }
}

std::string index_of(const std::string& file) {
  return "{\"weight_map\":{\"a\":\"" + file + "\",\"b\":\"" + file + "\"}}";
}

TEST(Safetensors, ShardedFolder) {
  TempFolder folder;
  folder.write("one.safetensors", two_tensors());
  folder.write("model.safetensors.index.json", index_of("one.safetensors"));
  EXPECT_EQ(open_safetensors(folder.path()).names().size(), 2u);
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","c":"one.safetensors"}})");
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "tensor 'c' is missing"));
  folder.write("two.safetensors", two_tensors());
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "appears twice"));
}

// BL-35: shard names stay inside the folder.
TEST(Safetensors, ShardNamesCannotLeaveTheFolder) {
  TempFolder outer;
  outer.write("victim/model.safetensors", two_tensors());
  std::string root = outer / "model";
  outer.write("model/sub/keep", "");
  fs::create_symlink("../victim/model.safetensors", root + "/link.safetensors");
  fs::create_directory_symlink("../victim", root + "/linked");
  ASSERT_EQ(mkfifo((root + "/fifo.safetensors").c_str(), 0600), 0);
  for (std::string name :
       {std::string("../victim/model.safetensors"), std::string("/etc/passwd"),
        std::string("sub/../../victim/model.safetensors"), std::string("one\\u0000.safetensors"),
        std::string("link.safetensors"), std::string("linked/model.safetensors"),
        std::string("fifo.safetensors"), std::string("sub"), std::string(10000, 'n'), std::string(),
        std::string("."), std::string("absent.safetensors")}) {
    outer.write("model/model.safetensors.index.json", index_of(name));
    EXPECT_TRUE(contains(error_of([&] { open_safetensors(root); }), "shard name '" + name.substr(0, 3)))
        << name;
  }
}

TEST(Safetensors, HubCacheLinksWork) {
  TempFolder cache;
  cache.write("models--a--b/blobs/0123", two_tensors());
  cache.write("models--other/blobs/0123", two_tensors());
  std::string root = cache / "models--a--b/snapshots/abc";
  cache.write("models--a--b/snapshots/abc/model.safetensors.index.json", index_of("one.safetensors"));
  fs::create_symlink("../../blobs/0123", root + "/one.safetensors");
  EXPECT_EQ(open_safetensors(root).names().size(), 2u);
  fs::remove(root + "/one.safetensors");
  fs::create_symlink("../../../models--other/blobs/0123", root + "/one.safetensors");
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(root); }), "leaves the model folder"));
}

TEST(Safetensors, FolderWithoutWeights) {
  TempFolder folder;
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "expected model.safetensors"));
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder / "absent"); }), "not a folder"));
  fs::create_directory(folder / "model.safetensors");
  EXPECT_TRUE(contains(error_of([&] { open_safetensors(folder.path()); }), "not a regular file"));
}

// A header is read in linear time: mixtures of experts have this many tensors.
TEST(Safetensors, HundredThousandTensors) {
  constexpr int kTensors = 100000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i)
    header += str(i ? "," : "", "\"layers.", i, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[", i,
                  ",", i + 1, "]}");
  TempFolder folder;
  folder.write("model.safetensors", safetensors_bytes(header + "}", std::string(kTensors, 'x')));
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(open_safetensors(folder.path()).names().size(), static_cast<size_t>(kTensors));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(20));  // seconds with sanitizers; minutes if it were quadratic
}

TEST(Safetensors, GoldenModelsOpen) {
  int opened = 0;
  for (const char* group : {"models", "quantised"})
    for (const auto& entry : fs::directory_iterator(test::golden(group))) {
      Checkpoint checkpoint = open_safetensors(entry.path());
      EXPECT_GT(checkpoint.names().size(), 5u) << entry.path();
      ++opened;
    }
  EXPECT_GT(opened, 40);
}

}  // namespace
}  // namespace octavo
