// Tile shape of the int8 and block formats: 12 sums, 2 weights, a value and a product fill the 16 registers.
// Products of four k need no second panel to hide their latency, and one row reads one stream of memory
// faster than four (W4A8: 55 instead of 44 GB/s).
constexpr int kMaxRows = 6, kWidePanels = 1, kAccumulators = 12, kAheadRows = 2;
constexpr int panels_of(int) { return 1; }
