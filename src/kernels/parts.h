// What an ISA folder exports: pointers to the parts that it has. Null entries leave what the level below
// provides; a null function inside `elementwise` or `sampling` does too. select.cc copies them over one
// another into a KernelTable.
#pragma once

#include "kernels/table.h"

namespace octavo::kernels {

struct KernelParts {
  const char* isa;
  const LinearKernel* linear[kNumWeightFormats] = {};  ///< in the order of WeightFormat
  const LinearKernel* int8_blocks = nullptr;           ///< array of all formats from kFirstInt8Block on
  const LinearKernel* blocks = nullptr;  ///< array of all formats from kFirstBlockFormat on, in their order
  const LinearKernel* bf16_blocks = nullptr;             ///< the same with BF16 products; null: `blocks`
  const AttentionKernel* attention[kNumKvFormats] = {};  ///< in the order of KvFormat
  const ElementwiseKernels* elementwise = nullptr;
  const SamplingKernels* sampling = nullptr;
};

// Each is defined in <isa>/table.cc, its parts in the files beside it.
namespace scalar {
extern const KernelParts parts;
extern const LinearKernel linear_f32, linear_bf16, linear_w8a8, linear_w4a8, linear_q8a8, linear_q4a8;
extern const LinearKernel linear_int8_blocks[], linear_blocks[];
extern const AttentionKernel attention_f32, attention_bf16, attention_fp8, attention_int8;
extern const ElementwiseKernels elementwise;
extern const SamplingKernels sampling;
}  // namespace scalar

namespace avx2 {
extern const KernelParts parts;
extern const LinearKernel linear_f32, linear_bf16, linear_w8a8, linear_w4a8, linear_q8a8, linear_q4a8;
extern const LinearKernel linear_int8_blocks[], linear_blocks[];
extern const AttentionKernel attention_f32, attention_bf16, attention_fp8, attention_int8;
extern const ElementwiseKernels elementwise;
extern const SamplingKernels sampling;
}  // namespace avx2

namespace avx512 {
extern const KernelParts parts;
extern const LinearKernel linear_f32, linear_bf16, linear_w8a8, linear_w4a8, linear_q8a8, linear_q4a8;
extern const LinearKernel linear_int8_blocks[], linear_blocks[];
extern const AttentionKernel attention_f32, attention_bf16, attention_fp8, attention_int8;
extern const ElementwiseKernels elementwise;
extern const SamplingKernels sampling;
}  // namespace avx512

namespace avx_vnni {
extern const KernelParts parts;
extern const LinearKernel linear_w8a8, linear_w4a8, linear_q8a8, linear_q4a8;
extern const LinearKernel linear_int8_blocks[];
}  // namespace avx_vnni

namespace avx512_vnni {
extern const KernelParts parts;
extern const LinearKernel linear_w8a8, linear_w4a8, linear_q8a8, linear_q4a8;
extern const LinearKernel linear_int8_blocks[];
}  // namespace avx512_vnni

namespace avx512_bf16 {
extern const KernelParts parts;
extern const LinearKernel linear_bf16;
extern const LinearKernel linear_blocks[];
extern const AttentionKernel attention_bf16;
}  // namespace avx512_bf16

namespace amx {
extern const KernelParts parts;
extern const LinearKernel linear_bf16, linear_w8a8, linear_w4a8;
extern const LinearKernel linear_blocks[];
extern const AttentionKernel attention_bf16;
}  // namespace amx

}  // namespace octavo::kernels
