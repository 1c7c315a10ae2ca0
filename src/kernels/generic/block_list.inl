// All LinearKernels of float_blocks.inl, in the order of WeightFormat. Include in the folder's namespace,
// after its anonymous one, which ends with block_kernels.inl.
constinit const LinearKernel linear_blocks[kNumBlockFormats] = {
    kKernel<W4A16>, kKernel<W8A16>, kKernel<FP8>,  kKernel<MXFP4>, kKernel<Q8_0>,
    kKernel<Q4_0>,  kKernel<Q4_1>,  kKernel<Q5_0>, kKernel<Q5_1>,  kKernel<Q2_K>,
    kKernel<Q3_K>,  kKernel<Q4_K>,  kKernel<Q5_K>, kKernel<Q6_K>,  kKernel<IQ4_NL>,
};
