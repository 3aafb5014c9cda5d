#include "shim/jemalloc_names.h"

#include <cstring>

#include "base/bits.h"
#include "shim/jemalloc_numbers.h"

namespace near::jemalloc {
namespace {

// A part of a name, between two dots.
struct Part {
  const char* start;
  size_t length;

  bool is(const Part& other) const {
    return other.length == length && strncmp(start, other.start, length) == 0;
  }
  bool is(const char* word) const { return is(Part{word, strlen(word)}); }
  bool is_index() const { return length == 3 && start[0] == '<'; }
  bool is_last() const { return start[length] == '\0'; }
  Part next() const { return part_at(start + length + 1); }
  static Part part_at(const char* start) { return {start, strcspn(start, ".")}; }
};

Part part_of(const char* name, size_t number) {
  Part part = Part::part_at(name);
  while (number-- > 0) part = part.next();
  return part;
}

size_t parts_of(const char* name) {
  size_t count = 1;
  for (Part part = Part::part_at(name); !part.is_last(); part = part.next()) count++;
  return count;
}

// True if the names of two rows begin with the same parts.
bool begin_alike(const char* name, const char* other, size_t parts) {
  const Part last = part_of(name, parts - 1);
  const size_t length = static_cast<size_t>(last.start - name) + last.length;
  return strncmp(name, other, length) == 0 && (other[length] == '.' || other[length] == '\0');
}

// True if the index at part `number` of the row may have this value.
bool is_index_of(const Name& row, size_t number, uint64_t index) {
  const Part before = part_of(row.name, number - 1);
  if (before.is("bin") || before.is("bins")) return index < kClasses;
  const bool is_legacy = before.is("arena") && index == arena_count();  // means all arenas
  return is_legacy || index == kAllArenas || index == kDestroyedArenas || is_arena(index);
}

// False if the text is no number.
bool read_index(const Part& part, uint64_t& index) {
  index = 0;
  for (size_t i = 0; i < part.length; i++) {
    if (part.start[i] < '0' || part.start[i] > '9' || index > UINT32_MAX) return false;
    index = index * 10 + static_cast<uint64_t>(part.start[i] - '0');
  }
  return part.length > 0;
}

// Looks up a name, part by part.
class Search {
 public:
  // Adds the next part of the caller's name. False if no row has such a part.
  bool add(const Part& part) {
    const unsigned before = row_;
    for (; row_ < kRows.count; row_++) {
      const char* name = kRows.first[row_].name;
      if (parts_ > 0 && !begin_alike(kRows.first[before].name, name, parts_)) return false;
      if (parts_ >= parts_of(name)) continue;
      if (matches(part_of(name, parts_), part)) return parts_++, true;
    }
    return false;
  }

  bool is_whole() const { return parts_of(row().name) == parts_; }
  const Name& row() const { return kRows.first[row_]; }
  // The number of the last part in a MIB.
  size_t number() const { return has_index_ ? index_ : row_; }
  bool has_index() const { return has_index_; }

 private:
  bool matches(const Part& of_row, const Part& part) {
    has_index_ = of_row.is_index();
    if (!has_index_) return of_row.is(part);
    return read_index(part, index_) && is_index_of(row(), parts_, index_);
  }

  unsigned row_ = 0;
  size_t parts_ = 0;
  bool has_index_ = false;
  uint64_t index_ = 0;
};

}  // namespace

const Name* find_name(const char* name, Call& call) {
  Search search;
  size_t indexes = 0;
  for (Part part = Part::part_at(name);; part = part.next()) {
    if (!search.add(part)) return nullptr;
    if (search.has_index()) call.index[indexes++] = search.number();
    if (part.is_last()) return search.is_whole() ? &search.row() : nullptr;
  }
}

bool make_mib(const char* name, size_t* mib, size_t* length) {
  Search search;
  Part part = Part::part_at(name);
  for (size_t i = 0; i < *length; i++, part = part.next()) {
    if (!search.add(part)) return false;
    mib[i] = search.number();
    if (part.is_last()) *length = i + 1;
  }
  return true;
}

const Name* find_mib(const size_t* mib, size_t length, Call& call) {
  if (length == 0 || mib[length - 1] >= kRows.count) return nullptr;
  const Name& row = kRows.first[mib[length - 1]];  // no name ends with an index
  if (parts_of(row.name) != length) return nullptr;
  size_t indexes = 0;
  for (size_t i = 0; i + 1 < length; i++) {
    if (part_of(row.name, i).is_index()) {
      if (!is_index_of(row, i, mib[i])) return nullptr;
      call.index[indexes++] = mib[i];
    } else if (mib[i] >= kRows.count || !begin_alike(row.name, kRows.first[mib[i]].name, i + 1)) {
      return nullptr;
    }
  }
  return &row;
}

}  // namespace near::jemalloc
