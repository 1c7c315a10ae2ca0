// Activations that stay floats, for float_blocks.inl. Include inside the folder's anonymous namespace.
using Element = float;
constexpr bool kOffsetInSum = false, kSplitRows = false;
constexpr int kDepth = 256;
constexpr float kE4m3Scale = 1;
OCTAVO_INLINE Vec keep(const float* x, Element* to) {
  const Vec v = load(x);
  store(to, v);
  return v;
}
