// A model for tests of engine, frontend and server: no weights, instant, and it keeps the engine honest. It
// stores each token id and position through `slots` and reads them back through the block tables, as
// attention would; logits are a function of what it read. A wrong slot, table, position, window or a block
// shared by mistake changes the output and is counted as a fault.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "model/model.h"

namespace octavo {

struct FakeModelOptions {
  int64_t vocab = 97, max_model_len = 4096;
  std::vector<KvGroupSpec> kv_groups = {{2, 0}};
  int32_t nan_token = -1;    ///< logits after this token are NaN
  int32_t throw_token = -1;  ///< a step with this token throws
};

class FakeModel : public Model {
 public:
  explicit FakeModel(FakeModelOptions options = {}) : options_(std::move(options)) {
    info_.architecture = "FakeForCausalLM";
    info_.vocab = options_.vocab;
    info_.hidden = 8;
    info_.max_model_len = options_.max_model_len;
    info_.kv_heads = 1;
    info_.head_dim = 16;
    info_.kv_groups = options_.kv_groups;
    info_.layers = 0;
    for (const KvGroupSpec& group : options_.kv_groups) info_.layers += group.layers;
    info_.weight_bytes = 0;
  }

  const ModelInfo& info() const override { return info_; }
  int faults() const { return faults_; }

  void forward(OpContext&, const StepInput& step, const KvStore& kv, float* logits) override {
    check_ragged(step);
    for (size_t g = 0; g < info_.kv_groups.size(); ++g)
      for (int layer = 0; layer < info_.kv_groups[g].layers; ++layer)
        write(step, step.kv_groups[g], kv, layer, g);
    std::vector<uint64_t> state(step.num_tokens);
    for (int s = 0; s < step.num_seqs; ++s)
      for (int t = step.query_start[s]; t < step.query_start[s + 1]; ++t) state[t] = read(step, s, t, kv);
    for (int r = 0; r < step.num_logit_rows; ++r)
      fill(step, step.logit_rows[r], state, logits + r * info_.vocab);
  }

 private:
  struct Cell {
    int32_t token, position, group;
  };
  static Cell* cell(const KvStore& kv, int layer, int64_t block, int64_t offset) {
    const kernels::KvView& view = kv.regions[layer];
    return reinterpret_cast<Cell*>(view.base + block * view.kv_heads * view.head_bytes) + offset;
  }
  void expect(bool condition) { faults_ += !condition; }

  void check_ragged(const StepInput& step) {
    expect(step.num_tokens > 0 && step.query_start[0] == 0 &&
           step.query_start[step.num_seqs] == step.num_tokens);
    for (int s = 0; s < step.num_seqs; ++s) {
      int first = step.query_start[s], end = step.query_start[s + 1];
      expect(first < end && step.positions[end - 1] == step.context_len[s] - 1);
      for (int t = first; t < end; ++t) {
        expect(t == first || step.positions[t] == step.positions[t - 1] + 1);
        expect(step.token_ids[t] >= 0 && step.token_ids[t] < info_.vocab);
        if (step.token_ids[t] == options_.throw_token)
          throw std::runtime_error("the fake model was told to throw");
      }
    }
  }

  void write(const StepInput& step, const KvGroupStep& group, const KvStore& kv, int layer, size_t g) {
    std::set<int32_t> seen;
    int64_t block_size = kv.regions[layer].block_size;
    for (int t = 0; t < step.num_tokens; ++t) {
      expect(group.slots[t] >= 0 && seen.insert(group.slots[t]).second);
      *cell(kv, layer, group.slots[t] / block_size, group.slots[t] % block_size) = {
          step.token_ids[t], step.positions[t], static_cast<int32_t>(g)};
    }
  }

  /// Hash of all that token t of sequence s sees, read through the tables.
  uint64_t read(const StepInput& step, int s, int t, const KvStore& kv) {
    uint64_t hash = 1469598103934665603u;
    int32_t position = step.positions[t];
    for (size_t g = 0; g < info_.kv_groups.size(); ++g) {
      const KvGroupSpec& spec = info_.kv_groups[g];
      const int32_t* table = step.kv_groups[g].block_tables + s * step.kv_groups[g].max_blocks;
      for (int layer = 0; layer < spec.layers; ++layer) {
        int64_t block_size = kv.regions[layer].block_size;
        for (int64_t p = spec.window ? std::max<int64_t>(0, position - spec.window + 1) : 0; p <= position;
             ++p) {
          expect(p / block_size < step.kv_groups[g].max_blocks);
          int32_t block = table[p / block_size];
          expect(block >= 0);
          if (block < 0) continue;
          const Cell& c = *cell(kv, layer, block, p % block_size);
          expect(c.position == p && c.group == static_cast<int32_t>(g));
          hash = (hash ^ static_cast<uint64_t>(c.token)) * 1099511628211u;
        }
      }
    }
    return hash;
  }

  void fill(const StepInput& step, int32_t t, const std::vector<uint64_t>& state, float* row) const {
    for (int64_t v = 0; v < info_.vocab; ++v) {
      uint64_t x = (state[t] ^ static_cast<uint64_t>(v) * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
      row[v] = 6.0f * static_cast<float>((x ^ (x >> 29)) >> 40 & 0xffff) / 65536.0f;
    }
    if (step.token_ids[t] == options_.nan_token)
      row[info_.vocab / 2] = std::numeric_limits<float>::quiet_NaN();
  }

  const FakeModelOptions options_;
  ModelInfo info_;
  std::atomic<int> faults_{0};
};

}  // namespace octavo
