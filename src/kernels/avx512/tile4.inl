// Tile shape of W4A8, Q4A8, Q8A8 and the block formats: twelve sums and as many results. Each product reads
// its value from memory (one load a product, of two a cycle), so a panel of weights needs no second one
// beside it; and one or two rows read one stream of memory faster than four.
constexpr int kMaxRows = 12, kWidePanels = 1, kAccumulators = 12, kAheadRows = 3;
constexpr int panels_of(int rows) { return rows >= 3 && rows <= 6 ? 2 : 1; }
