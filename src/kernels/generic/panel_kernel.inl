// The LinearKernel of an int8 format in column panels. Include last inside the folder's anonymous namespace:
// after int8.inl, int4.inl or int8_groups.inl and what defines run().
constexpr LinearKernel panel_kernel(const char* name) {
  return {
      .name = name,
      .m_step = 1,
      .n_step = kPanel,
      .packed_bytes = packed_bytes,
      .pack = pack,
      .prepared_bytes = prepared_bytes,
      .prepare = prepare,
      .run = run,
  };
}
