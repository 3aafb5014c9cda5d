// Free runs of pages in address order: a treap whose nodes are stored at the start of the runs.
// Each node knows the longest run of its subtree, so the first run that is long enough, and the
// neighbours of a freed run, are a few steps from the root. [Seidel96]
//
// Invariant: runs neither overlap nor touch; the left subtree of a run holds lower addresses;
// `longest` is right in every node; no node has a rank below that of a child.
// Thread-safety: guarded by the lock of the structure that contains it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::design {

class FreeRuns {
 public:
  static constexpr size_t kPage = 4096;

  // Takes the tail of the first run of at least `pages`; null if there is none.
  char* take(size_t pages) { return take(root_, pages); }

  // Adds pages that are not here yet, and joins them with their neighbours.
  void put(char* start, size_t pages);

  // Gives the memory of the runs back to the system. True if there was any.
  bool trim() { return trim(root_); }

  // Runs looked at so far.
  size_t walked() const { return walked_; }

 private:
  struct Run {
    Run* left;
    Run* right;
    size_t pages;
    size_t longest;
    bool trimmed;  // its memory has been given back

    char* start() { return reinterpret_cast<char*>(this); }
    char* end() { return start() + pages * kPage; }
    uint64_t rank() const;
    void update();
  };

  static Run* merge(Run* lower, Run* upper);
  static bool trim(Run* tree);
  char* take(Run*& tree, size_t pages);
  void split(Run* tree, const char* at, Run*& lower, Run*& upper);

  Run* root_ = nullptr;
  size_t walked_ = 0;
};

}  // namespace near::design
