#include "engine/sequence.h"

#include "engine/sampler.h"

namespace octavo {

Sequence::Sequence() = default;
Sequence::~Sequence() = default;

}  // namespace octavo
