// Explicit rules for binding: which thread, counted by creation from 0, belongs to which node.
//
//   # the first thread and eight workers; all other threads in turn
//   0     0
//   1-8   1
//   *     interleave
//
// The first matching rule applies; without one a thread is interleaved. A node is a number of the
// topology, counted without holes, or `interleave`, `saturate`, `any` (not bound).
// Thread-safety: `read` once at start; `find` any thread afterwards.
#pragma once

#include <cstdint>

namespace near::design::numalloc::binding {

struct Rule {
  enum class Kind : uint8_t { node, interleave, saturate, any };
  uint64_t first;
  uint64_t last;
  Kind kind;
  unsigned node;
};

class Rules {
 public:
  // Reads `path`; reports once each line that it ignores, or that the file is too long. False if it
  // cannot be read.
  bool read(const char* path, unsigned nodes);
  // Like `read`, for a text; messages call it `name`.
  void parse(const char* text, const char* name, unsigned nodes);
  Rule find(uint64_t thread) const;
  unsigned count() const { return count_; }

 private:
  static constexpr unsigned kMaxRules = 256;
  Rule rules_[kMaxRules] = {};
  unsigned count_ = 0;
};

}  // namespace near::design::numalloc::binding
