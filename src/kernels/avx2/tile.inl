// Tile shape of linear_float.inl: 12 accumulators, 2 weights, 1 mask and 1 broadcast fill the 16 registers.
constexpr int kMaxRows = 6, kWidePanels = 1, kAccumulators = 12, kAheadRows = 3;
constexpr int panels_of(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
