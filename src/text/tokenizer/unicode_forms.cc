#include "text/tokenizer/unicode_forms.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

const icu::Normalizer2& normalizer(UnicodeForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* result = nullptr;
  switch (form) {
    case UnicodeForm::kNfc:
      result = icu::Normalizer2::getNFCInstance(status);
      break;
    case UnicodeForm::kNfd:
      result = icu::Normalizer2::getNFDInstance(status);
      break;
    case UnicodeForm::kNfkc:
      result = icu::Normalizer2::getNFKCInstance(status);
      break;
    case UnicodeForm::kNfkd:
      result = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  OCTAVO_CHECK(U_SUCCESS(status), "ICU has no normalization data: ", u_errorName(status));
  return *result;
}

// Sorts long runs of combining marks by their class. The result is canonically equivalent, so each normal
// form is unchanged, but ICU then has nothing left to move; it inserts one mark after the other (1 MB:
// minutes).
void sort_long_mark_runs(std::string& text) {
  constexpr size_t kLong = 32;
  struct Mark {
    uint8_t order;
    char32_t c;
  };
  std::vector<Mark> run;
  const char* const end = text.data() + text.size();
  const auto flush = [&](const char* run_begin, size_t run_bytes) {
    if (run.size() >= kLong) {
      std::stable_sort(run.begin(), run.end(),
                       [](const Mark& a, const Mark& b) { return a.order < b.order; });
      std::string sorted;
      for (const Mark& mark : run) append_char(mark.c, sorted);
      std::copy(sorted.begin(), sorted.end(), text.begin() + (run_begin - text.data()));
      OCTAVO_CHECK(sorted.size() == run_bytes);
    }
    run.clear();
  };
  const char* run_begin = text.data();
  for (const char* p = text.data(); p != end;) {
    const char* const begin = p;
    const char32_t c = next_char(p);
    const uint8_t order = c < 0x300 ? 0 : u_getCombiningClass(static_cast<UChar32>(c));
    if (order == 0) {
      flush(run_begin, begin - run_begin);
      run_begin = p;
    } else {
      run.push_back({order, c});
    }
  }
  flush(run_begin, end - run_begin);
}

}  // namespace

void to_unicode_form(UnicodeForm form, std::string& text) {
  if (is_ascii(text)) return;
  const icu::Normalizer2& icu_normalizer = normalizer(form);
  sort_long_mark_runs(text);
  UErrorCode status = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (icu_normalizer.isNormalizedUTF8(piece, status) && U_SUCCESS(status)) return;
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  status = U_ZERO_ERROR;
  icu_normalizer.normalizeUTF8(0, piece, sink, nullptr, status);
  OCTAVO_CHECK(U_SUCCESS(status), "ICU normalization: ", u_errorName(status));
  text = std::move(result);
}

void append_lower(char32_t c, std::string& out) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_char(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
  }
}

bool is_combining_mark(char32_t c) { return U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK; }
namespace {
bool is_in_unicode8(char32_t c) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] >= 1 && age[0] <= 8;
}
}  // namespace

bool is_nonspacing_mark(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK && is_in_unicode8(c);
}
bool is_other(char32_t c) {
  const uint32_t category = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (category & U_GC_CO_MASK) || (category & (U_GC_CC_MASK | U_GC_CF_MASK) && is_in_unicode8(c));
}

}  // namespace octavo::tok
