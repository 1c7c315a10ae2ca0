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

bool is_combining_mark(char32_t c);  // general category M
// As BERT's normalizer means them: by the tables of Unicode 8, which the reference has for it.
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_other(char32_t c);            // Cc, Cf, Co

}  // namespace octavo::tok
