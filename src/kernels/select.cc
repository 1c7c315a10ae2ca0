// Overlays the tables of the levels that this CPU has, lowest first. The one place that knows all ISA
// folders.
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/parts.h"

namespace octavo::kernels {
namespace {

struct Level {
  const KernelParts* parts;
  bool (*present)(const CpuFeatures&);
};

constexpr Level kLevels[] = {
    {&scalar::parts, [](const CpuFeatures&) { return true; }},
#if defined(__x86_64__)
    {&avx2::parts, [](const CpuFeatures& f) { return f.avx2; }},
    {&avx_vnni::parts, [](const CpuFeatures& f) { return f.avx_vnni; }},
    {&avx512::parts, [](const CpuFeatures& f) { return f.avx512; }},
    {&avx512_vnni::parts, [](const CpuFeatures& f) { return f.avx512_vnni; }},
    {&avx512_bf16::parts, [](const CpuFeatures& f) { return f.avx512_bf16; }},
    {&amx::parts, [](const CpuFeatures& f) { return f.amx_int8 && f.amx_bf16 && f.avx512_bf16; }},
#endif
};
constexpr int kNumLevels = static_cast<int>(std::size(kLevels));

/// The parts are structs of function pointers only; null ones keep what is below.
template <class Functions>
void overlay_functions(Functions& table, const Functions* parts) {
  if (!parts) return;
  constexpr size_t count = sizeof(Functions) / sizeof(void*);
  void* below[count];
  void* above[count];
  std::memcpy(below, &table, sizeof table);
  std::memcpy(above, parts, sizeof table);
  for (size_t i = 0; i < count; ++i)
    if (above[i]) below[i] = above[i];
  std::memcpy(&table, below, sizeof table);
}

void overlay(KernelTable& table, const KernelParts& parts) {
  table.isa = parts.isa;
  for (int i = 0; i < kNumWeightFormats; ++i)
    if (parts.linear[i] && parts.linear[i]->run) table.linear[i] = *parts.linear[i];
  for (int i = 0; parts.int8_blocks && i < kNumInt8Blocks; ++i)
    table.linear[kFirstInt8Block + i] = parts.int8_blocks[i];
  for (int i = 0; parts.blocks && i < kNumBlockFormats; ++i)
    table.linear[kFirstBlockFormat + i] = table.bf16_blocks[i] = parts.blocks[i];
  for (int i = 0; parts.bf16_blocks && i < kNumBlockFormats; ++i) table.bf16_blocks[i] = parts.bf16_blocks[i];
  for (int i = 0; i < kNumKvFormats; ++i)
    if (parts.attention[i] && parts.attention[i]->attend) table.attention[i] = *parts.attention[i];
  overlay_functions(table.elementwise, parts.elementwise);
  overlay_functions(table.sampling, parts.sampling);
}

/// tables[i]: levels 0..i that the CPU has; a level that it lacks repeats the table below it.
struct Tables {
  KernelTable tables[kNumLevels] = {};
  const char* names[kNumLevels + 1] = {};
  Tables() {
    int count = 0;
    for (int i = 0; i < kNumLevels; ++i) {
      if (i) tables[i] = tables[i - 1];
      if (!kLevels[i].present(cpu_features())) continue;
      overlay(tables[i], *kLevels[i].parts);
      names[count++] = kLevels[i].parts->isa;
    }
  }
};

const Tables& all() {
  static const Tables tables;
  return tables;
}

}  // namespace

const KernelTable& select(const char* isa) {
  std::string known;
  for (int i = 0; i < kNumLevels; ++i) {
    if (std::strcmp(kLevels[i].parts->isa, isa) == 0) return all().tables[i];
    known += (i ? ", " : "") + std::string(kLevels[i].parts->isa);
  }
  throw Error("OCTAVO_ISA: unknown level '", isa, "', expected one of ", known);
}

const KernelTable& select() {
  const char* cap = std::getenv("OCTAVO_ISA");
  return cap && *cap ? select(cap) : all().tables[kNumLevels - 1];
}

const char* const* available() { return all().names; }

}  // namespace octavo::kernels
