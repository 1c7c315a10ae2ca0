// --int4-activations int8: weights of 4 bits that were made for float activations run as W4A8.
#pragma once

#include "load/host_weight.h"

namespace octavo {

/// W4A16 (compressed-tensors, AWQ, GPTQ) and GGUF's Q4_0 become W4A8 with the same integers, scales, groups
/// and zero points; the activations are then rounded to int8, one scale a token. Anything else stays as it
/// is.
void use_int8_activations(HostWeight& weight);

/// Sets weight.half_scales by what its scales are.
void note_half_scales(HostWeight& weight);

}  // namespace octavo
