#include "designs/shared/free_runs.h"

#include "base/bits.h"
#include "platform/os.h"

namespace near::design {

// A hash: as good as random at whatever distances the runs lie, and constant for a run. A single
// multiplication is not enough: the multiples of a number rise steadily along some distances, and
// the tree then becomes as deep as these are long.
uint64_t FreeRuns::Run::rank() const {
  uint64_t mixed = reinterpret_cast<uintptr_t>(this) / kPage * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

void FreeRuns::Run::update() {
  longest = pages;
  if (left != nullptr) longest = max_of(longest, left->longest);
  if (right != nullptr) longest = max_of(longest, right->longest);
}

// All of `lower` is below `upper`.
FreeRuns::Run* FreeRuns::merge(Run* lower, Run* upper) {
  if (lower == nullptr) return upper;
  if (upper == nullptr) return lower;
  if (lower->rank() > upper->rank()) {
    lower->right = merge(lower->right, upper);
    lower->update();
    return lower;
  }
  upper->left = merge(lower, upper->left);
  upper->update();
  return upper;
}

void FreeRuns::split(Run* tree, const char* at, Run*& lower, Run*& upper) {
  if (tree == nullptr) {
    lower = upper = nullptr;
    return;
  }
  walked_++;
  if (tree->start() < at) {
    split(tree->right, at, tree->right, upper);
    lower = tree;
  } else {
    split(tree->left, at, lower, tree->left);
    upper = tree;
  }
  tree->update();
}

char* FreeRuns::take(Run*& tree, size_t pages) {
  if (tree == nullptr || tree->longest < pages) return nullptr;
  walked_++;
  char* taken = take(tree->left, pages);
  if (taken == nullptr && tree->pages >= pages) {
    tree->pages -= pages;
    taken = tree->end();
    if (tree->pages == 0) {
      tree = merge(tree->left, tree->right);
      return taken;
    }
  }
  if (taken == nullptr) taken = take(tree->right, pages);
  tree->update();
  return taken;
}

void FreeRuns::put(char* start, size_t pages) {
  const char* end = start + pages * kPage;
  auto* run = reinterpret_cast<Run*>(start);
  Run* lower = nullptr;
  Run* upper = nullptr;
  split(root_, start, lower, upper);
  Run* before = lower;
  while (before != nullptr && before->right != nullptr) before = before->right;
  if (before != nullptr && before->end() == start) {
    split(lower, before->start(), lower, run);
    pages += run->pages;
  }
  Run* after = upper;
  while (after != nullptr && after->left != nullptr) after = after->left;
  if (after != nullptr && after->start() == end) {
    split(upper, after->end(), after, upper);
    pages += after->pages;
  }
  *run = {.left = nullptr, .right = nullptr, .pages = pages, .longest = pages, .trimmed = false};
  root_ = merge(merge(lower, run), upper);
}

bool FreeRuns::trim(Run* tree) {
  if (tree == nullptr) return false;
  bool any = trim(tree->left);
  any = trim(tree->right) || any;
  if (tree->trimmed) return any;
  // All except the page that contains the node itself.
  const size_t page = max_of(kPage, os::page_size());
  const size_t from = align_up(reinterpret_cast<uintptr_t>(tree) + sizeof(Run), page);
  const size_t to = align_down(reinterpret_cast<uintptr_t>(tree->end()), page);
  tree->trimmed = from < to && os::purge(reinterpret_cast<void*>(from), to - from);
  return tree->trimmed || any;
}

}  // namespace near::design
