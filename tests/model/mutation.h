// Deliberate faults. A model that no fault can fail proves nothing, so each model names mutations
// of its protocol and has to fail under every one.
//   an order     one atomic operation of a production header, named by file and function, or by a
//                piece of its line, runs at a weaker order than is written there
//   a fence      the same; from kSeqCst to kRelaxed, which removes it
//   a step       the model's own code asks `mutated(step)` and does something wrong
// Invariant: at most one mutation is tried at a time.
// Thread-safety: the runner sets it between two runs; all other code only reads it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <source_location>
#include <string_view>

namespace near {

struct Mutation {
  std::string_view name;
  // An order: `from` becomes `to` in the functions whose signature contains `function` and whose
  // file is named `file`. Without a file: a step.
  std::string_view file = {};
  std::string_view function = {};
  rl::memory_order from = rl::mo_relaxed;
  rl::memory_order to = rl::mo_relaxed;
  std::string_view text = {};  // only where the line contains it
};

inline const Mutation* mutation = nullptr;

// Whether the source line of `place` contains the text, in the source files as they are now.
inline bool line_contains(const std::source_location& place, std::string_view text) {
  std::FILE* file = std::fopen(place.file_name(), "r");
  if (file == nullptr) return false;
  char line[256] = {};
  for (uint32_t i = 0; i < place.line() && std::fgets(line, sizeof(line), file) != nullptr;) i++;
  std::fclose(file);
  return std::string_view(line).find(text) != std::string_view::npos;
}

// As line_contains; caches the answers for the present mutation.
inline bool is_at_text(const std::source_location& place) {
  constexpr uint32_t kLines = 400;
  static const Mutation* remembered = nullptr;
  static signed char answers[kLines];
  if (remembered != mutation) std::memset(answers, -1, sizeof(answers));
  remembered = mutation;
  signed char& answer = answers[place.line() % kLines];
  if (answer < 0) answer = line_contains(place, mutation->text) ? 1 : 0;
  return answer == 1;
}

inline rl::memory_order mutated(rl::memory_order order, const std::source_location& place) {
  if (mutation == nullptr || order != mutation->from || mutation->file.empty()) return order;
  if (!std::string_view(place.file_name()).ends_with(mutation->file)) return order;
  if (std::string_view(place.function_name()).find(mutation->function) == std::string_view::npos) {
    return order;
  }
  if (!mutation->text.empty() && !is_at_text(place)) return order;
  return mutation->to;
}

inline bool mutated(std::string_view step) { return mutation != nullptr && mutation->name == step; }

}  // namespace near
