// The LinearKernels of int8_blocks.inl's formats. Include last inside the folder's anonymous namespace, after
// run<F>() and kSuffix.

/// "q4_k int8 avx2 6x16"
struct Name {
  char text[40] = {};
  constexpr Name(const char* format, const char* suffix) {
    int at = 0;
    for (; *format; ++format) text[at++] = *format;
    for (; *suffix; ++suffix) text[at++] = *suffix;
  }
};
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
