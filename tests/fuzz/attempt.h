// What the fuzz targets share.
#pragma once

#include "base/error.h"

namespace octavo::fuzz {

/// Runs f. Error is how bad input is answered; whatever else is thrown ends the program, and is a finding.
template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

}  // namespace octavo::fuzz
