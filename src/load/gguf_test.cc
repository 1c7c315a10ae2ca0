#include "load/gguf.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

#include "load/dequantise.h"
#include "load/gguf_names.h"
#include "load/hf_config.h"
#include "load/test_files.h"
#include "load/test_gguf.h"

namespace octavo {
namespace {

using test::contains;
using test::error_of;
using test::gguf_string;
using test::GgufBytes;
using test::golden;
using test::raw;
using test::TempFolder;
using test::tiny_llama;

uint32_t crc32(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

void parse(const std::string& bytes) {
  GgufFile({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "f.gguf");
}
std::string refusal(const std::string& bytes) {
  return error_of([&] { parse(bytes); });
}

// Checksums of what the gguf Python package (0.19) dequantises, all tensors of a file in its order.
TEST(Gguf, GoldenFilesDequantiseExactly) {
  struct Row {
    const char* file;
    uint32_t crc;
  };
  const Row kRows[] = {{"llama-f16", 0xa2f6097eu},         {"llama-q4_0", 0xab623ecdu},
                       {"llama-q4_1", 0x92fd0637u},        {"llama-q4_k_m", 0x2dcabcbeu},
                       {"llama-q5_0", 0x1a9f5efbu},        {"llama-q5_k", 0x8f398de0u},
                       {"llama-q6_k-untied", 0x87465a78u}, {"llama-q8_0", 0x0ae80b9au}};
  for (const Row& row : kRows) {
    GgufFile file(golden(std::string("gguf/") + row.file + ".gguf"));
    uint32_t crc = 0;
    for (const GgufFile::Tensor& tensor : file.tensors()) {
      std::vector<float> values = dequantise({tensor.dtype, tensor.shape, tensor.data});
      crc = crc32(values.data(), values.size() * 4, crc);
    }
    EXPECT_EQ(crc, row.crc) << row.file;
  }
}

// The same package on 64 blocks of pseudo-random bytes, float16 fields kept finite: every code of every
// field.
TEST(Gguf, EveryBlockTypeDequantisesExactly) {
  struct Row {
    DType dtype;
    std::vector<int> halves;  ///< byte offsets of float16 fields
    uint32_t crc;
  };
  const Row kRows[] = {{DType::kQ4_0, {0}, 0xc033a30cu},    {DType::kQ4_1, {0, 2}, 0x0a890212u},
                       {DType::kQ5_0, {0}, 0x9e38ae93u},    {DType::kQ5_1, {0, 2}, 0xa4409dc2u},
                       {DType::kQ8_0, {0}, 0xa1c9c251u},    {DType::kQ2_K, {80, 82}, 0x0ea7dfb6u},
                       {DType::kQ3_K, {108}, 0xa1716ac9u},  {DType::kQ4_K, {0, 2}, 0x0d384b05u},
                       {DType::kQ5_K, {0, 2}, 0x7163934bu}, {DType::kQ6_K, {208}, 0xf416d62du},
                       {DType::kIQ4_NL, {0}, 0x662472f6u},  {DType::kMXFP4, {}, 0x813bd1dcu}};
  for (const Row& row : kRows) {
    constexpr int kBlocks = 64;
    const DTypeInfo& type = info(row.dtype);
    std::vector<std::byte> bytes;
    uint64_t x = 1;
    for (int block = 0; block < kBlocks; ++block) {
      for (int i = 0; i < type.block_bytes; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes.push_back(static_cast<std::byte>(x >> 56));
      }
      for (int half : row.halves) bytes[block * type.block_bytes + half + 1] &= std::byte{0xbf};
    }
    std::vector<float> values = dequantise({row.dtype, {kBlocks, type.block_elements}, bytes.data()});
    EXPECT_EQ(crc32(values.data(), values.size() * 4, 0), row.crc) << type.name;
    std::vector<float> one(type.block_elements);
    dequantise_rows({row.dtype, {kBlocks, type.block_elements}, bytes.data()}, 63, 64, one.data());
    EXPECT_EQ(std::memcmp(one.data(), values.data() + 63 * one.size(), one.size() * 4), 0);
  }
}

TEST(Gguf, GoldenConfigAndTokenizer) {
  ModelConfig c = load_gguf_config(golden("gguf/llama-q4_k_m.gguf"));
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.hidden, 256);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.vocab, 320);
  EXPECT_EQ(c.max_model_len, 1024);
  EXPECT_NEAR(c.norm_eps, 1e-5, 1e-12);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(load_gguf_config(golden("gguf/llama-q6_k-untied.gguf")).tie_word_embeddings);
  EXPECT_EQ(stop_ids(c), std::vector<int32_t>{318});
  EXPECT_EQ(c.bos_id, 313);
  GgufTokenizer t = gguf_tokenizer(GgufFile(golden("gguf/llama-q4_k_m.gguf")));
  EXPECT_EQ(t.model, "gpt2");
  EXPECT_EQ(t.pre, "llama-bpe");
  EXPECT_EQ(t.tokens.size(), 320u);
  EXPECT_EQ(t.token_types.size(), 320u);
  EXPECT_EQ(t.merges[0], "\xC4\xA0 t");
  EXPECT_EQ(t.eos_id, 318);
  EXPECT_FALSE(t.eot_id);
  EXPECT_EQ(t.add_bos, true);
  EXPECT_TRUE(contains(t.chat_template.value(), "bos_token"));
}

TEST(Gguf, TensorsHaveHuggingFaceNamesAndRowOrder) {
  TempFolder folder;
  Checkpoint c = open_gguf(folder.write("m.gguf", tiny_llama().bytes()));
  EXPECT_TRUE(c.is_gguf());
  EXPECT_EQ(dequantise(c.require("model.embed_tokens.weight", {4, 8}))[9], 9);
  // Stored rows of the one head: 0a 0b 1a 1b; Hugging Face's: 0a 1a 0b 1b.
  std::vector<float> k = dequantise(c.require("model.layers.0.self_attn.k_proj.weight", {4, 8}));
  EXPECT_EQ((std::vector<float>{k[0], k[8], k[16], k[24]}), (std::vector<float>{0, 16, 8, 24}));
  c.drop_reordered();
  EXPECT_EQ(dequantise(c.get("model.layers.0.self_attn.k_proj.weight")), k);
  Checkpoint whole = open_gguf(golden("gguf/llama-q4_0.gguf"));
  for (const std::string& name : whole.names())
    EXPECT_TRUE(name.starts_with("model.") || name.starts_with("lm_head.")) << name;
}

// Every GGUF name of an architecture is a tensor of the Hugging Face golden of the same family, and covers
// it.
TEST(Gguf, NamesCoverEachFamily) {
  struct Row {
    const char *architecture, *model;
    std::vector<std::string> root, layer;
  };
  const std::vector<std::string> kGated = {"attn_norm.weight", "ffn_norm.weight", "attn_q.weight",
                                           "attn_k.weight",    "attn_v.weight",   "attn_output.weight",
                                           "ffn_gate.weight",  "ffn_up.weight",   "ffn_down.weight"};
  auto plus = [&](std::vector<std::string> more) {
    more.insert(more.end(), kGated.begin(), kGated.end());
    return more;
  };
  const std::vector<std::string> kRoot = {"token_embd.weight", "output_norm.weight"};
  const Row kRows[] = {
      {"llama", "llama-mha-f32", {"token_embd.weight", "output_norm.weight", "output.weight"}, kGated},
      {"qwen2", "qwen2-gqa7-tied", kRoot, plus({"attn_q.bias", "attn_k.bias", "attn_v.bias"})},
      {"qwen3", "qwen3-tied", kRoot, plus({"attn_q_norm.weight", "attn_k_norm.weight"})},
      {"gpt2",
       "gpt2",
       {"token_embd.weight", "position_embd.weight", "output_norm.weight", "output_norm.bias"},
       {"attn_norm.weight", "attn_norm.bias", "attn_qkv.weight", "attn_qkv.bias", "attn_output.weight",
        "attn_output.bias", "ffn_norm.weight", "ffn_norm.bias", "ffn_up.weight", "ffn_up.bias",
        "ffn_down.weight", "ffn_down.bias"}}};
  for (const Row& row : kRows) {
    Checkpoint model = open_safetensors(golden(std::string("models/") + row.model));
    int64_t layers = load_config(golden(std::string("models/") + row.model)).layers;
    std::string bytes = GgufBytes().text("general.architecture", row.architecture).bytes();
    const GgufArchitecture& architecture =
        gguf_architecture(GgufFile({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "f"));
    std::vector<std::string> names = row.root;
    for (int64_t i = 0; i < layers; ++i)
      for (const std::string& name : row.layer) names.push_back("blk." + std::to_string(i) + "." + name);
    for (const std::string& name : names) {
      std::string mapped = hf_tensor_name(architecture, name);
      EXPECT_TRUE(model.find(mapped)) << row.architecture << ": " << name << " -> " << mapped;
      if (model.find(mapped)) model.get(mapped);
    }
    EXPECT_TRUE(model.unused().empty()) << row.architecture << ": " << model.unused()[0];
  }
}

TEST(Gguf, RopeScaling) {
  TempFolder folder;
  auto config = [&](GgufBytes bytes) { return load_gguf_config(folder.write("m.gguf", bytes.bytes())); };
  EXPECT_EQ(config(tiny_llama()).rope.type, RopeType::kDefault);
  ModelConfig yarn = config(tiny_llama()
                                .text("llama.rope.scaling.type", "yarn")
                                .f32("llama.rope.scaling.factor", 4)
                                .u32("llama.rope.scaling.original_context_length", 512));
  EXPECT_EQ(yarn.rope.type, RopeType::kYarn);
  EXPECT_EQ(yarn.rope.original_max_position, 512);
  EXPECT_EQ(yarn.max_model_len, 2048);
  ModelConfig linear =
      config(tiny_llama().text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2));
  EXPECT_EQ(linear.rope.factor, 2);
  ModelConfig freqs = config(tiny_llama().floats("rope_freqs.weight", {2}, {1, 8}));
  EXPECT_EQ(freqs.rope.freq_factors, (std::vector<float>{1, 8}));
  EXPECT_EQ(config(tiny_llama().u32("llama.rope.dimension_count", 2)).rope.partial_rotary_factor, 0.5);
  auto refused = [&](GgufBytes bytes) { return error_of([&] { config(bytes); }); };
  EXPECT_TRUE(
      contains(refused(tiny_llama().floats("rope_freqs.weight", {3}, {1, 8, 8})), "rope_freqs.weight"));
  EXPECT_TRUE(contains(refused(tiny_llama().floats("rope_freqs.weight", {2}, {1, 0})), "rope_freqs.weight"));
  EXPECT_TRUE(contains(refused(tiny_llama().text("llama.rope.scaling.type", "banana")),
                       "unknown rope type 'banana'"));
  EXPECT_TRUE(contains(
      refused(tiny_llama().text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 0)),
      "factor: 0"));
}

// BL-13: chat models end with eot or eom as well as with eos.
TEST(Gguf, StopIdsIncludeEndOfTurn) {
  TempFolder folder;
  auto bytes = tiny_llama().u32("tokenizer.ggml.eos_token_id", 1).u32("tokenizer.ggml.eot_token_id", 3);
  EXPECT_EQ(stop_ids(load_gguf_config(folder.write("m.gguf", bytes.bytes()))), (std::vector<int32_t>{1, 3}));
}

TEST(Gguf, BadModelsAreRefused) {
  TempFolder folder;
  auto refused = [&](GgufBytes bytes) {
    std::string path = folder.write("m.gguf", bytes.bytes());
    return error_of([&] { load_gguf_config(path); });
  };
  EXPECT_TRUE(
      contains(refused(GgufBytes().text("general.architecture", "banana")),
               "general.architecture 'banana' is not supported; supported: llama, qwen2, qwen3, gpt2"));
  EXPECT_TRUE(contains(refused(GgufBytes()), "general.architecture ''"));
  EXPECT_TRUE(contains(refused(GgufBytes().text("general.architecture", "llama")), "token_embd.weight"));
  EXPECT_TRUE(contains(refused(GgufBytes()
                                   .text("general.architecture", "llama")
                                   .floats("token_embd.weight", {8, 1}, std::vector<float>(8))),
                       "llama.embedding_length' is missing"));
  EXPECT_TRUE(contains(refused(tiny_llama().u32("llama.expert_count", 4)), "expert_count"));
  EXPECT_TRUE(contains(refused(tiny_llama().u32("llama.attention.key_length", 0)), "head_dim"));
}

// BL-33: each hostile header is an Error, at once and in little memory.
// The bias of an interleaved q is reordered element by element: blocks have none.
TEST(Gguf, ABlockQuantisedBiasIsRefused) {
  TempFolder folder;
  GgufBytes bytes = tiny_llama();
  std::string file = folder.write(
      "m.gguf", bytes.tensor("blk.0.attn_q.bias", {64}, 2, 256).data(std::string(64, 'x')).bytes());
  EXPECT_TRUE(contains(error_of([&] { open_gguf(file); }), "'blk.0.attn_q.bias' is not a matrix"));
}

TEST(Gguf, HostileHeadersAreRefused) {
  auto one = [](std::vector<uint64_t> dims, uint32_t type = 0, uint64_t offset = 0) {
    return GgufBytes().tensor("w", dims, type, offset).data(std::string(64, 'x')).bytes();
  };
  auto aligned = [](uint32_t alignment) { return GgufBytes().u32("general.alignment", alignment).bytes(); };
  std::string huge_key =
      "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(0) + raw<uint64_t>(1) + raw(uint64_t{1} << 40);
  std::string two =
      GgufBytes().tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 0).data(std::string(64, 'x')).bytes();
  struct Bad {
    std::string bytes;
    const char* message;
  };
  const Bad kBad[] = {
      {one({1, 0}), "'w': a dimension is 0"},
      {one({(uint64_t{1} << 42) + 1, uint64_t{1} << 22}), "'w': dimensions overflow"},
      {one({uint64_t{1} << 63}), "'w': dimensions overflow"},
      {one(std::vector<uint64_t>(200, 1)), "'w': 200 dimensions"},
      {one({}), "'w': 0 dimensions"},
      {GgufBytes().header((uint64_t{1} << 63) - 1, 0), "9223372036854775807 tensors"},
      {GgufBytes().header(0, (uint64_t{1} << 63) - 1), "9223372036854775807 metadata keys"},
      {GgufBytes().header(1000000, 0), "within its header"},
      {huge_key, "key of 1099511627776 bytes"},
      {GgufBytes().key("k", 8, raw(uint64_t{1} << 40)).bytes(), "string of 1099511627776 bytes"},
      {GgufBytes().key("k", 8, raw(~uint64_t{0})).bytes(), "bytes, at most"},
      {GgufBytes().key("k", 9, raw<uint32_t>(4) + raw(uint64_t{1} << 33)).bytes(),
       "'k': 8589934592 values do not fit"},
      {GgufBytes().key("k", 9, raw<uint32_t>(8) + raw(uint64_t{1} << 33)).bytes(),
       "'k': 8589934592 strings do not fit"},
      {GgufBytes().key("k", 9, raw<uint32_t>(4) + raw(uint64_t{1} << 62)).bytes(), "values do not fit"},
      {GgufBytes().key("k", 9, raw<uint32_t>(9) + raw<uint64_t>(1)).bytes(), "unknown or nested type 9"},
      {GgufBytes().key("k", 13, "").bytes(), "unknown or nested type 13"},
      {aligned(0), "general.alignment 0"},
      {aligned(1 << 30), "general.alignment 1073741824"},
      {aligned(48), "general.alignment 48"},
      {GgufBytes().text("general.alignment", "8").bytes(), "general.alignment"},
      {one({8}, 9999), "'w': unsupported tensor type 9999"},
      {one({8}, 4), "'w': unsupported tensor type 4"},
      {one({33}, 8), "'w': rows of 33 are not whole Q8_0 blocks"},
      {one({8}, 0, 1 << 20), "pass the end of the file"},
      {one({8}, 0, ~uint64_t{0} - 31), "pass the end of the file"},
      {one({1000, 1000}), "pass the end of the file"},
      {one({8}, 0, 4), "not a multiple of the alignment"},
      {two, "overlaps another tensor"},
      {GgufBytes().tensor("w", {8}, 0, 0).tensor("w", {8}, 0, 32).data(std::string(64, 'x')).bytes(),
       "'w' appears twice"},
      {GgufBytes().tensor("", {8}, 0, 0).bytes(), "empty tensor name"},
      {GgufBytes().u32("", 1).bytes(), "empty metadata key"},
      {GgufBytes().u32("k", 1).u32("k", 1).bytes(), "key 'k' appears twice"},
      {GgufBytes().header(0, 0, 1), "GGUF version 1"},
      {GgufBytes().header(0, 0, 0x03000000), "GGUF version 50331648"},
      {"GGML", "is not a GGUF file"},
      {"", "is not a GGUF file"},
  };
  auto peak_kb = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  auto before = peak_kb();
  auto start = std::chrono::steady_clock::now();
  for (const Bad& bad : kBad) EXPECT_TRUE(contains(refusal(bad.bytes), bad.message));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_LT(peak_kb() - before, 100 << 10);
}

TEST(Gguf, CutAtEveryByte) {
  std::string whole = tiny_llama().texts("tokenizer.ggml.tokens", {"a", "bc"}).bytes();
  EXPECT_NO_THROW(parse(whole));
  for (size_t size = 0; size < whole.size() - 32; ++size)
    EXPECT_THROW(parse(whole.substr(0, size)), Error) << size;
}

TEST(Gguf, WrongMetadataTypesAreRefused) {
  std::string bytes = GgufBytes().u32("n", 1).text("s", "x").texts("list", {"x"}).f32("f", 1).bytes();
  GgufFile file({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "f.gguf");
  EXPECT_TRUE(contains(error_of([&] { file.integer("s"); }), "'s': expected an integer"));
  EXPECT_TRUE(contains(error_of([&] { file.integer("list"); }), "'list': expected a single value"));
  EXPECT_TRUE(contains(error_of([&] { file.integers("list"); }), "'list'"));
  EXPECT_TRUE(contains(error_of([&] { file.text("n"); }), "'n': expected a string"));
  EXPECT_TRUE(contains(error_of([&] { file.floats("n"); }), "'n': expected an array"));
  EXPECT_TRUE(contains(error_of([&] { file.boolean("n"); }), "'n': expected a boolean"));
  EXPECT_TRUE(contains(error_of([&] { file.integer("f"); }), "'f': expected an integer"));
  EXPECT_EQ(file.number("n"), 1);
  EXPECT_EQ(file.texts("absent").size(), 0u);
  EXPECT_TRUE(contains(error_of([&] { gguf_tokenizer(file); }), "holds no tokenizer"));
}

TEST(Gguf, TokenizerFaultsAreRefused) {
  auto refused = [](GgufBytes b) {
    std::string bytes =
        b.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", "b"}).bytes();
    return error_of([&] {
      gguf_tokenizer(GgufFile({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "f"));
    });
  };
  EXPECT_TRUE(
      contains(refused(GgufBytes().u32("tokenizer.ggml.bos_token_id", 2)), "bos_token_id 2 is not one of"));
  EXPECT_TRUE(contains(
      refused(GgufBytes().key("tokenizer.ggml.scores", 9, raw<uint32_t>(6) + raw<uint64_t>(1) + raw(1.0f))),
      "scores"));
}

TEST(Gguf, SplitFiles) {
  TempFolder folder;
  GgufBytes first = tiny_llama().u32("split.no", 0).u32("split.count", 2).u32("split.tensors.count", 3);
  GgufBytes second = GgufBytes()
                         .u32("split.no", 1)
                         .u32("split.count", 2)
                         .floats("output.weight", {8, 4}, std::vector<float>(32, 5));
  std::string path = folder.write("m-00001-of-00002.gguf", first.bytes());
  EXPECT_TRUE(contains(error_of([&] { open_gguf(path); }), "m-00002-of-00002.gguf: cannot open"));
  std::string later = folder.write("m-00002-of-00002.gguf", second.bytes());
  Checkpoint c = open_gguf(path);
  EXPECT_EQ(c.names().size(), 3u);
  EXPECT_EQ(dequantise(c.get("lm_head.weight"))[0], 5);
  EXPECT_FALSE(load_gguf_config(path).tie_word_embeddings);
  EXPECT_TRUE(
      contains(error_of([&] { open_gguf(later); }), "give its first file, named *-00001-of-00002.gguf"));
  folder.write("m-00002-of-00002.gguf", first.bytes());
  EXPECT_TRUE(contains(error_of([&] { open_gguf(path); }), "split.no"));
  std::string many = folder.write("x.gguf", tiny_llama().u32("split.count", 1u << 31).bytes());
  EXPECT_TRUE(contains(error_of([&] { open_gguf(many); }), "split.count 2147483648"));
}

}  // namespace
}  // namespace octavo
