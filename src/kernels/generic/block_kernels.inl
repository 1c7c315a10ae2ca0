// The LinearKernels of panel_blocks.inl's formats. Include last inside the folder's anonymous namespace,
// after run<F>() and kSuffix.
//   kRowPadding    rows that run() may read beyond the last

#include "kernels/generic/kernel_name.inl"

template <class F>
constexpr Name kKernelName(F::kName, kSuffix);

template <class F>
size_t padded_bytes(int64_t m, const LinearShape& shape) {
  return prepared_bytes<F>(m + kRowPadding, shape);
}

template <class F>
constexpr LinearKernel kKernel = {
    .name = kKernelName<F>.text,
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<F>,
    .pack = pack<F>,
    .prepared_bytes = padded_bytes<F>,
    .prepare = prepare<F>,
    .run = run<F>,
};
