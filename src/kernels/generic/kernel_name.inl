// Names of kernels that differ by format: "q4_k" and " int8 avx2 6x16". Include inside an anonymous
// namespace.
struct Name {
  char text[64] = {};
  constexpr Name(const char* format, const char* suffix) {
    int at = 0;
    for (; *format; ++format) text[at++] = *format;
    for (; *suffix; ++suffix) text[at++] = *suffix;
  }
};
