// Where codes and scales stand in GGUF's blocks, for packing them (the formulas: load/quant/gguf_blocks.cc).
// Include inside an anonymous namespace.
//   kName, kElements, kBytes    of a block
//   kD, kM                      where its float16s are: of the scales and, if any, of the minima
//   code(block, i)              element i, unsigned
//   scale(block, g), min(block, g)    of K blocks: the integer scale and minimum of group g

/// Element i of 32 whose low halves stand in the low nibbles of 16 bytes, then the high nibbles.
[[gnu::always_inline]] inline int nibble(const uint8_t* q, int i) { return q[i % 16] >> (i / 16 * 4) & 15; }
/// Element i of 256 in 64 bytes of 2-bit fields: each run of 32 bytes holds four runs of 32 elements.
[[gnu::always_inline]] inline int two_bits(const uint8_t* q, int i) {
  return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}
/// Element i of 32: its fifth bit stands before the nibbles.
[[gnu::always_inline]] inline int five_bits(const uint8_t* q, int i) {
  return nibble(q + 4, i) | (q[i / 8] >> (i % 8) & 1) << 4;
}

struct FileQ4_0 {
  static constexpr const char* kName = "q4_0";
  static constexpr int kElements = 32, kBytes = 18, kD = 0;
  static int code(const uint8_t* block, int i) { return nibble(block + 2, i); }
};
struct FileQ4_1 {
  static constexpr const char* kName = "q4_1";
  static constexpr int kElements = 32, kBytes = 20, kD = 0, kM = 2;
  static int code(const uint8_t* block, int i) { return nibble(block + 4, i); }
};
struct FileQ5_0 {
  static constexpr const char* kName = "q5_0";
  static constexpr int kElements = 32, kBytes = 22, kD = 0;
  static int code(const uint8_t* block, int i) { return five_bits(block + 2, i); }
};
struct FileQ5_1 {
  static constexpr const char* kName = "q5_1";
  static constexpr int kElements = 32, kBytes = 24, kD = 0, kM = 2;
  static int code(const uint8_t* block, int i) { return five_bits(block + 4, i); }
};
struct FileQ8_0 {
  static constexpr const char* kName = "q8_0";
  static constexpr int kElements = 32, kBytes = 34, kD = 0;
  static int code(const uint8_t* block, int i) { return block[2 + i]; }
};
struct FileIQ4_NL {
  static constexpr const char* kName = "iq4_nl";
  static constexpr int kElements = 32, kBytes = 18, kD = 0;
  static int code(const uint8_t* block, int i) { return nibble(block + 2, i); }
};
struct FileMXFP4 {
  static constexpr const char* kName = "mxfp4";
  static constexpr int kElements = 32, kBytes = 17;
  static int code(const uint8_t* block, int i) { return nibble(block + 1, i); }
};

/// Scales and minima of 8 groups, six bits each, in 12 bytes: the first four of each lie whole in bytes 0-3
/// and 4-7, whose upper two bits complete the last four with the nibbles of bytes 8-11.
struct FileScaledMins {
  static constexpr int kElements = 256, kD = 0, kM = 2;
  static int scale(const uint8_t* block, int g) {
    const uint8_t* p = block + 4;
    return g < 4 ? p[g] & 63 : (p[g + 4] & 15) | (p[g - 4] >> 6 << 4);
  }
  static int min(const uint8_t* block, int g) {
    const uint8_t* p = block + 4;
    return g < 4 ? p[g + 4] & 63 : (p[g + 4] >> 4) | (p[g] >> 6 << 4);
  }
};
struct FileQ4_K : FileScaledMins {
  static constexpr const char* kName = "q4_k";
  static constexpr int kBytes = 144;
  static int code(const uint8_t* b, int i) { return b[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15; }
};
struct FileQ5_K : FileScaledMins {
  static constexpr const char* kName = "q5_k";
  static constexpr int kBytes = 176;
  static int code(const uint8_t* b, int i) {
    return (b[48 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15) | (b[16 + i % 32] >> (i / 32) & 1) << 4;
  }
};
struct FileQ2_K {
  static constexpr const char* kName = "q2_k";
  static constexpr int kElements = 256, kBytes = 84, kD = 80, kM = 82;
  static int code(const uint8_t* b, int i) { return two_bits(b + 16, i); }
  static int scale(const uint8_t* b, int g) { return b[g] & 15; }
  static int min(const uint8_t* b, int g) { return b[g] >> 4; }
};
struct FileQ3_K {
  static constexpr const char* kName = "q3_k";
  static constexpr int kElements = 256, kBytes = 110, kD = 108;
  static int code(const uint8_t* b, int i) { return two_bits(b + 32, i) | (b[i % 32] >> (i / 32) & 1) << 2; }
  static int scale(const uint8_t* b, int g) {
    const uint8_t* p = b + 96;
    return ((p[g % 8] >> (g / 8 * 4) & 15) | (p[8 + g % 4] >> (g / 4 * 2) & 3) << 4) - 32;
  }
};
struct FileQ6_K {
  static constexpr const char* kName = "q6_k";
  static constexpr int kElements = 256, kBytes = 210, kD = 208;
  static int code(const uint8_t* b, int i) {
    return (b[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15) | two_bits(b + 128, i) << 4;
  }
  static int scale(const uint8_t* b, int g) { return static_cast<int8_t>(b[192 + g]); }
};
