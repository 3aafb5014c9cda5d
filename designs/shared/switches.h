// The switches of a design: its paper's ablations, chosen at start by
// NEARMALLOC_DESIGN_OPTIONS=name=value,...
// Invariant: a value is one of the words, or a number from `lowest` to `highest`. Any other value
// is reported once and changes nothing.
// Thread-safety: written at start, before any other thread; read by any thread.
#pragma once

#include <span>

namespace near::design {

struct Switch {
  const char* name;
  const char* words;  // names of the values from `lowest` on, separated by '|'; null: a number.
                      // A word that ends with ':' takes the rest of the entry as its text.
  long value;         // initially the default
  long lowest;
  long highest;
  const char* help;
  const char* text = nullptr;  // the text after the ':', null-terminated; never freed
};

// Sets `switches` from `text` (null: changes nothing). Messages begin with `design`.
void read_switches(const char* design, const char* text, std::span<Switch> switches);

}  // namespace near::design
