// Tile shape of W8A8 and of BF16 by dot products (tile.inl): one row reads one stream of memory faster than
// four (6 % with BF16, 10 % with W8A8). Up to 7 rows wait for memory: fetching ahead made them a fifth
// slower.
constexpr int kMaxRows = 8, kWidePanels = 2, kAccumulators = 16, kAheadRows = 8;
constexpr int panels_of(int rows) { return rows == 1 ? 1 : rows <= 4 ? 4 : 2; }
