// The LinearKernels of int8_blocks.inl's formats. Include last inside the folder's anonymous namespace, after
// run<F>() and kSuffix.

#include "kernels/generic/kernel_name.inl"

template <class F>
constexpr Name kKernelName(F::File::kName, kSuffix);

template <class F>
constexpr LinearKernel kKernel = {
    .name = kKernelName<F>.text,
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<F>,
    .pack = pack<F>,
    .prepared_bytes = prepared_bytes<F>,
    .prepare = prepare<F>,
    .run = run<F>,
};
