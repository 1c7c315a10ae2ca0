// All LinearKernels of int8_blocks.inl, in the order of WeightFormat. Include in the folder's namespace,
// after its anonymous one, which ends with block_kernels.inl.
constinit const LinearKernel linear_int8_blocks[kNumInt8Blocks] = {
    kKernel<Q4_1>, kKernel<Q5_0>, kKernel<Q5_1>, kKernel<Q2_K>,  kKernel<Q3_K>,
    kKernel<Q4_K>, kKernel<Q5_K>, kKernel<Q6_K>, kKernel<MXFP4>,
};
