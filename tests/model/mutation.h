// Deliberate faults. A model that no fault can fail proves nothing, so each model names mutations
// of its protocol and has to fail under every one.
//   an order     one atomic operation of a production header, named by file and function, runs at a
//                weaker order than is written there
//   a step       the model's own code asks `mutated(step)` and does something wrong
// Invariant: at most one mutation is tried at a time.
// Who may touch it: the runner sets it between two runs; everything else reads it.
#pragma once

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
};

inline const Mutation* mutation = nullptr;

inline rl::memory_order mutated(rl::memory_order order, const std::source_location& place) {
  if (mutation == nullptr || order != mutation->from || mutation->file.empty()) return order;
  if (!std::string_view(place.file_name()).ends_with(mutation->file)) return order;
  if (std::string_view(place.function_name()).find(mutation->function) == std::string_view::npos) {
    return order;
  }
  return mutation->to;
}

inline bool mutated(std::string_view step) { return mutation != nullptr && mutation->name == step; }

}  // namespace near
