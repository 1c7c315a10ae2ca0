#include "ops/linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace octavo {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
template <class T>
T round_up(T value, std::type_identity_t<T> step) {
  return (value + step - 1) / step * step;
}

}  // namespace

// A weight starts at a huge-page border. Its last, partial huge page stays in small pages: rounding up would
// waste 1 MB a weight on average, more than the weights of a small model.
PackedBuffer::PackedBuffer(size_t bytes) : size_(round_up(std::max<size_t>(bytes, 1), kPage)) {
  const size_t reserve = size_ + (size_ >= kHugePage ? kHugePage : 0);
  void* mapped = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw Error("out of memory: cannot map ", bytes, " bytes for a weight");
  std::byte* begin = static_cast<std::byte*>(mapped);
  data_ = begin;
  if (reserve == size_) return;
  data_ += (kHugePage - reinterpret_cast<size_t>(begin) % kHugePage) % kHugePage;
  if (data_ > begin) munmap(begin, data_ - begin);
  if (const size_t tail = begin + reserve - (data_ + size_)) munmap(data_ + size_, tail);
  madvise(data_, size_, MADV_HUGEPAGE);  // only a hint; without huge pages everything still works
}

PackedBuffer::~PackedBuffer() {
  if (data_) munmap(data_, size_);
}

PackedBuffer::PackedBuffer(PackedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PackedBuffer& PackedBuffer::operator=(PackedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

namespace {

/// Column pieces of one linear: the same for packing and running, so that a worker's first touch places its
/// own pages.
struct ColumnSplit {
  int64_t step;  ///< columns of a piece, a multiple of n_step
  int pieces;
};

// More pieces than workers, so that they can be taken over; but wide enough for a kernel that walks several
// panels at once.
ColumnSplit split_columns(const kernels::LinearKernel& kernel, int64_t n, int workers) {
  constexpr int kPiecesPerWorker = 8;
  constexpr int64_t kMinBlocks = 4;
  const int64_t blocks = ceil_div(n, kernel.n_step);
  const int64_t per_piece =
      std::max(kMinBlocks, round_up(ceil_div(blocks, int64_t{kPiecesPerWorker} * workers), 4));
  return {per_piece * kernel.n_step, static_cast<int>(ceil_div(blocks, per_piece))};
}

/// Gathers output rows [n0, n1) of several fused parts into one WeightRows.
class Gather {
 public:
  explicit Gather(std::span<const LinearPart> parts) : parts_(parts), k_(parts[0].shape.k) {}

  kernels::WeightRows rows(int64_t n0, int64_t n1) {
    out_ = {};
    scratch_.resize((n1 - n0) * k_);
    int64_t first = 0;  // of the part, in the fused weight
    for (const LinearPart& part : parts_) {
      const int64_t from = std::max(n0, first), to = std::min(n1, first + part.shape.n);
      if (from == n0 && to == n1) {  // the usual case: no copy
        part.rows(from - first, to - first, scratch_.data(), out_);
        return out_;
      }
      if (from < to) append(part, from - first, to - first, from - n0, n1 - n0);
      first += part.shape.n;
    }
    return out_;
  }

 private:
  void append(const LinearPart& part, int64_t from, int64_t to, int64_t at, int64_t total) {
    kernels::WeightRows piece;
    part.rows(from, to, scratch_.data(), piece);
    const int64_t count = to - from, groups = ceil_div(part.shape.k, part.shape.group);
    copy(piece.values, values_, out_.values, count * k_, at * k_, total * k_);
    copy(piece.q, q_, out_.q, count * k_, at * k_, total * k_);
    copy(piece.scales, scales_, out_.scales, count * groups, at * groups, total * groups);
    copy(piece.zeros, zeros_, out_.zeros, count * groups, at * groups, total * groups);
    const int64_t bytes = out_.block_row_bytes = piece.block_row_bytes;
    copy(piece.blocks, blocks_, out_.blocks, count * bytes, at * bytes, total * bytes);
  }
  template <class T>
  static void copy(const T* from, std::vector<T>& to, const T*& out, int64_t count, int64_t at,
                   int64_t total) {
    if (!from) return;
    to.resize(total);
    std::memcpy(to.data() + at, from, count * sizeof(T));
    out = to.data();
  }

  std::span<const LinearPart> parts_;
  int64_t k_;
  kernels::WeightRows out_;
  std::vector<float> scratch_, values_, scales_;
  std::vector<int8_t> q_, zeros_;
  std::vector<std::byte> blocks_;
};

std::vector<float> join_bias(const std::vector<LinearPart>& parts, int64_t n) {
  bool any = false;
  for (const LinearPart& part : parts) any = any || !part.bias.empty();
  std::vector<float> bias;
  if (!any) return bias;
  bias.reserve(n);
  for (const LinearPart& part : parts) {
    OCTAVO_CHECK(part.bias.empty() || static_cast<int64_t>(part.bias.size()) == part.shape.n);
    bias.insert(bias.end(), part.bias.begin(), part.bias.end());
    if (part.bias.empty()) bias.resize(bias.size() + part.shape.n);
  }
  return bias;
}

/// group 0 in a part means one scale a row.
std::vector<LinearPart> normalised(const std::vector<LinearPart>& parts) {
  std::vector<LinearPart> out = parts;
  for (LinearPart& part : out) {
    if (part.shape.group == 0) part.shape.group = part.shape.k;
    OCTAVO_CHECK(part.shape.k == out[0].shape.k);
  }
  return out;
}

bool same_segment(const LinearPart& a, const LinearPart& b) {
  return a.format == b.format && a.bf16_products == b.bf16_products && a.shape.group == b.shape.group &&
         a.shape.x_scale == b.shape.x_scale && a.shape.x_zero == b.shape.x_zero &&
         a.shape.x_asymmetric == b.shape.x_asymmetric && a.shape.half_scales == b.shape.half_scales &&
         a.shape.has_zeros == b.shape.has_zeros;
}

const kernels::LinearKernel& kernel_of(const kernels::KernelTable& table, const LinearPart& part) {
  const int format = static_cast<int>(part.format), block = format - kernels::kFirstBlockFormat;
  return part.bf16_products && block >= 0 ? table.bf16_blocks[block] : table.linear[format];
}

LinearSegment build_segment(OpContext& ctx, std::span<const LinearPart> parts, int64_t first) {
  LinearSegment out;
  out.first = first;
  out.format = parts[0].format;
  out.shape = parts[0].shape;
  out.kernel = &kernel_of(ctx.kernels, parts[0]);
  if (!out.kernel->run) throw Error("no kernel for this weight format on ", ctx.kernels.isa);
  out.shape.n = 0;
  for (const LinearPart& part : parts) out.shape.n += part.shape.n;
  out.packed = PackedBuffer(out.kernel->packed_bytes(out.shape));

  const ColumnSplit split = split_columns(*out.kernel, out.shape.n, ctx.team.size());
  std::mutex mutex;
  std::exception_ptr error;  // parts read files: the first Error travels back to the caller
  ctx.team.run(split.pieces, [&](int piece, int) {
    try {
      const int64_t n0 = piece * split.step, n1 = std::min(out.shape.n, n0 + split.step);
      Gather gather(parts);
      const kernels::WeightRows rows = gather.rows(n0, n1);
      OCTAVO_CHECK(!rows.zeros || out.shape.has_zeros, "zero points that the shape does not state");
      out.kernel->pack(rows, n0, n1, out.shape, out.packed.data());
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  return out;
}

}  // namespace

Linear Linear::build(OpContext& ctx, const std::vector<LinearPart>& given, std::vector<int32_t> permutation) {
  const std::vector<LinearPart> parts = normalised(given);
  Linear out;
  out.k = parts[0].shape.k;
  for (size_t i = 0, end; i < parts.size(); i = end) {
    for (end = i + 1; end < parts.size() && same_segment(parts[i], parts[end]);) ++end;
    out.segments.push_back(build_segment(ctx, std::span(parts).subspan(i, end - i), out.n));
    out.n += out.segments.back().shape.n;
  }
  out.bias = join_bias(parts, out.n);
  out.permutation = std::move(permutation);
  return out;
}

size_t Linear::bytes() const {
  size_t sum = bias.size() * sizeof(float) + permutation.size() * sizeof(int32_t);
  for (const LinearSegment& segment : segments) sum += segment.packed.size();
  return sum;
}

namespace {

// Work below this many multiply-adds takes about as long as the fork and the join (1 us); measured in
// bench_linear.
constexpr int64_t kMinForkWork = 32 * 1024;
// Rows of a piece of a large batch: its block of x (rows * 512 floats per K block) stays in a 1 MB L2.
constexpr int64_t kRowBlock = 192;

void prepare(OpContext& ctx, const LinearSegment& w, const float* x, int64_t ldx, int64_t m, void* prepared) {
  const kernels::LinearKernel& kernel = *w.kernel;
  const int64_t step = kernel.m_step * std::max<int64_t>(1, kMinForkWork / 4 / (w.shape.k * kernel.m_step));
  ctx.team.run(static_cast<int>(ceil_div(m, step)), [&](int piece, int) {
    const int64_t m0 = piece * step;
    kernel.prepare(x, ldx, m0, std::min(m, m0 + step), m, w.shape, prepared);
  });
}

/// x with its columns in the weights' order.
const float* permuted(OpContext& ctx, const Linear& weights, const float* x, int64_t ldx, int64_t m) {
  float* out = ctx.workspace.alloc<float>(m * weights.k);
  const int64_t step = std::max<int64_t>(1, kMinForkWork / weights.k);
  ctx.team.run(static_cast<int>(ceil_div(m, step)), [&](int piece, int) {
    for (int64_t r = piece * step; r < std::min(m, (piece + 1) * step); ++r)
      for (int64_t j = 0; j < weights.k; ++j) out[r * weights.k + j] = x[r * ldx + weights.permutation[j]];
  });
  return out;
}

void run_segment(OpContext& ctx, const LinearSegment& segment, kernels::LinearRun run) {
  const kernels::LinearKernel& kernel = *segment.kernel;
  const int64_t n = segment.shape.n, m = run.m;
  run.packed = segment.packed.data();
  run.shape = segment.shape;
  if (run.bias) run.bias += segment.first;
  run.y += segment.first;
  if (const size_t bytes = kernel.prepared_bytes(m, segment.shape)) {
    void* prepared = ctx.workspace.alloc_bytes(bytes);
    prepare(ctx, segment, run.x, run.ldx, m, prepared);
    run.prepared = prepared;
  }
  if (m * n * segment.shape.k < kMinForkWork) {
    run.n1 = n;
    run.m1 = m;
    kernel.run(run);
    return;
  }
  const ColumnSplit columns = split_columns(kernel, n, ctx.team.size());
  const int64_t row_step = round_up(kRowBlock, kernel.m_step);
  const int row_blocks = static_cast<int>(ceil_div(m, row_step));
  // Columns outermost: a worker's share is a contiguous range of the weight, whatever m is.
  ctx.team.run(columns.pieces * row_blocks, [&](int piece, int) {
    kernels::LinearRun part = run;
    part.n0 = piece / row_blocks * columns.step;
    part.n1 = std::min(n, part.n0 + columns.step);
    part.m0 = piece % row_blocks * row_step;
    part.m1 = std::min(m, part.m0 + row_step);
    kernel.run(part);
  });
}

}  // namespace

void linear(OpContext& ctx, const Linear& weights, const float* x, int64_t ldx, int64_t m, float* y,
            int64_t ldy, bool accumulate) {
  if (m == 0) return;
  if (ctx.observer) ctx.observer->observe(weights, x, ldx, m);
  Workspace::Scope scope(ctx.workspace);
  kernels::LinearRun run{};
  run.x = x;
  run.ldx = ldx;
  if (!weights.permutation.empty()) {
    run.x = permuted(ctx, weights, x, ldx, m);
    run.ldx = weights.k;
  }
  run.y = y;
  run.ldy = ldy;
  run.bias = weights.bias.empty() ? nullptr : weights.bias.data();
  run.m = m;
  run.accumulate = accumulate;
  for (const LinearSegment& segment : weights.segments) run_segment(ctx, segment, run);
}

}  // namespace octavo
