// --int4-activations and --gguf-activations: weights that were made for float activations run in int8
// arithmetic.
#pragma once

#include "load/host_weight.h"

namespace octavo {

/// W4A16 (compressed-tensors, AWQ, GPTQ) becomes W4A8 with the same integers, scales, groups
/// and zero points; the activations are then rounded to int8, one scale a token. Anything else stays as it
/// is.
void use_int8_activations(HostWeight& weight);

/// GGUF's blocks (but IQ4_NL) run with the same codes and scales, and activations rounded to int8 with a
/// scale for every 32 inputs: Q8_0 becomes Q8A8, Q4_0 Q4A8, Q4_K Q4_KA8 and so on. (llama.cpp rounds them
/// too.) Anything else stays as it is.
void use_int8_blocks(HostWeight& weight);

/// Sets weight.half_scales by what its scales are.
void note_half_scales(HostWeight& weight);

}  // namespace octavo
