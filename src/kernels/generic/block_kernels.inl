// The LinearKernels of block_formats.inl. Include last inside the folder's anonymous namespace, after
// run<F>(), kSuffix and kRowStep and kColumns, the steps of pieces.

#include "kernels/generic/kernel_name.inl"

template <class F>
constexpr Name kKernelName(F::kName, kSuffix);

template <class F>
constexpr LinearKernel kKernel = {
    .name = kKernelName<F>.text,
    .m_step = kRowStep,
    .n_step = kColumns,
    .packed_bytes = packed_bytes<F>,
    .pack = pack<F>,
    .prepared_bytes = prepared_bytes,
    .prepare = kPrepare,
    .run = run<F>,
};
