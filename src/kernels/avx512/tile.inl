// Tile shape of linear_float.inl. Eight rows, not twelve: rows of x are often a power of two apart, so that
// all fall into one set of an 8-way L1; with 12x32 tiles and k = 2048 Zen 4 fell from 97 % to 72 % of its
// peak.
constexpr int kMaxRows = 8, kWidePanels = 2, kAccumulators = 16, kAheadRows = 5;
// Four panels at once, not eight: streams 64 KB apart (k = 2048, BF16) share L1 sets (22 instead of 35 GB/s).
constexpr int panels_of(int rows) { return rows <= 4 ? 4 : 2; }
