#include "designs/shared/switches.h"

#include <cstring>
#include <string_view>

#include "base/bits.h"
#include "platform/message.h"

namespace near::design {
namespace {

// The texts after words that end with ':', which are paths.
constexpr size_t kTextRoom = 4096;
char texts[kTextRoom];
size_t texts_used = 0;

// Replaces substr, which may throw and so needs a C++ runtime.
std::string_view first_of(std::string_view text, size_t bytes) {
  return {text.data(), min_of(bytes, text.size())};
}
std::string_view behind(std::string_view text, size_t bytes) {
  text.remove_prefix(min_of(bytes, text.size()));
  return text;
}

const char* keep(std::string_view text) {
  if (texts_used + text.size() + 1 > kTextRoom) return nullptr;
  char* copy = texts + texts_used;
  memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  texts_used += text.size() + 1;
  return copy;
}

bool set_word(Switch& one, std::string_view value) {
  std::string_view words = one.words;
  for (long index = one.lowest;; index++) {
    const size_t end = words.find('|');
    const std::string_view word = first_of(words, end);
    const bool takes_text = word.ends_with(':');
    if (takes_text ? value.starts_with(word) : value == word) {
      if (takes_text) {
        one.text = keep(behind(value, word.size()));
        if (one.text == nullptr) return false;
      }
      one.value = index;
      return true;
    }
    if (end == std::string_view::npos) return false;
    words = behind(words, end + 1);
  }
}

bool set_number(Switch& one, std::string_view value) {
  if (value.empty() || value.size() > 12) return false;
  long number = 0;
  for (const char digit : value) {
    if (digit < '0' || digit > '9') return false;
    number = number * 10 + (digit - '0');
  }
  if (number < one.lowest || number > one.highest) return false;
  one.value = number;
  return true;
}

void complain(const char* design, std::string_view name, std::string_view value,
              const Switch& one) {
  const auto name_size = static_cast<int>(name.size());
  const auto value_size = static_cast<int>(value.size());
  if (one.words != nullptr) {
    message("%s: %.*s is ignored: '%.*s' is not one of %s", design, name_size, name.data(),
            value_size, value.data(), one.words);
  } else {
    message("%s: %.*s is ignored: '%.*s' is not a number from %ld to %ld", design, name_size,
            name.data(), value_size, value.data(), one.lowest, one.highest);
  }
}

void read_entry(const char* design, std::string_view entry, std::span<Switch> switches) {
  const size_t equals = entry.find('=');
  const std::string_view name = first_of(entry, equals);
  for (Switch& one : switches) {
    if (name != one.name) continue;
    const std::string_view value = behind(entry, name.size() + 1);
    if (!(one.words != nullptr ? set_word(one, value) : set_number(one, value))) {
      complain(design, name, value, one);
    }
    return;
  }
  message("%s: there is no switch '%.*s'", design, static_cast<int>(name.size()), name.data());
}

}  // namespace

void read_switches(const char* design, const char* text, std::span<Switch> switches) {
  std::string_view rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const size_t end = rest.find(',');
    const std::string_view entry = first_of(rest, end);
    if (!entry.empty()) read_entry(design, entry, switches);
    rest = behind(rest, entry.size() + 1);
  }
}

}  // namespace near::design
