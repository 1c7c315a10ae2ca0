// Unicode normal forms, case and accents, on ICU.
#pragma once

#include <string>

namespace octavo::tok {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Rewrites valid UTF-8 into the form. Linear also for hostile runs of combining marks, which ICU alone sorts
/// in quadratic time.
void to_unicode_form(UnicodeForm form, std::string& text);

/// The full, context-free lower case of one character, appended (only U+0130 has two characters).
void append_lower(char32_t c, std::string& out);

bool is_combining_mark(char32_t c);   // general category M
bool is_nonspacing_mark(char32_t c);  // general category Mn
bool is_other(char32_t c);            // general category C: control, format, unassigned, ...

}  // namespace octavo::tok
