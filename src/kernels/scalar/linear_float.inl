// The reference: one accumulator per output, products added in rising k. It starts at addend + bias.

template <class Pack>
float weight(const typename Pack::Unit* panel, int64_t kk, int c);

template <>
inline float weight<PackF32>(const float* panel, int64_t kk, int c) {
  return panel[kk * kPanel + c];
}

template <>
inline float weight<PackBF16>(const uint32_t* panel, int64_t kk, int c) {
  const uint32_t pair = panel[kk / 2 * kPanel + c];
  const uint32_t bits = kk % 2 ? pair & 0xffff0000u : pair << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

template <class Pack>
void run(const LinearRun& a) {
  using Unit = typename Pack::Unit;
  for (int64_t first = a.n0; first < a.n1; first += kPanel) {
    const Unit* panel = static_cast<const Unit*>(a.packed) + first / kPanel * panel_units<Pack>(a.shape.k);
    const int columns = static_cast<int>(a.n1 - first < kPanel ? a.n1 - first : kPanel);
    for (int64_t row = a.m0; row < a.m1; ++row) {
      const float* x = a.x + row * a.ldx;
      float* y = a.y + row * a.ldy + first;
      float sum[kPanel] = {};
      for (int c = 0; c < columns; ++c)
        sum[c] = (a.accumulate ? y[c] : 0.0f) + (a.bias ? a.bias[first + c] : 0.0f);
      for (int64_t kk = 0; kk < a.shape.k; ++kk)
        for (int c = 0; c < kPanel; ++c) sum[c] += x[kk] * weight<Pack>(panel, kk, c);
      for (int c = 0; c < columns; ++c) y[c] = sum[c];
    }
  }
}
