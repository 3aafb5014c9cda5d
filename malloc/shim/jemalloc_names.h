// The names of mallctl: a table, and the search for a name or a MIB.
//
// A name has parts. `<i>` and `<j>` stand for an index: of a size class behind `bin` and `bins`,
// else of an arena. In a MIB an index stands for itself. Another part has the number of a row whose
// name begins with the same parts.
// docs/jemalloc.md explains each row; a test compares the document with the table.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::jemalloc {

enum class Type : uint8_t {
  none,
  boolean,
  unsigned_int,
  uint32,
  uint64,
  size,
  ssize,
  text,
  pointer
};

constexpr size_t bytes_of(Type type) {
  switch (type) {
    case Type::none:
      return 0;
    case Type::boolean:
      return sizeof(bool);
    case Type::unsigned_int:
    case Type::uint32:
      return sizeof(uint32_t);
    default:
      return sizeof(uint64_t);
  }
}

// The indexes and the new value of a call.
struct Call {
  uint64_t index[2];  // <i> and <j>
  bool has_value;     // the caller gave a value
  uint64_t value;
};

struct Answer {
  uint64_t value;
  int error = 0;
};

enum class Order : uint8_t {
  read_first,   // the answer is the old value
  write_first,  // the answer is the new value
  only_whole,   // refused, without an effect, unless the caller has room for the answer
};

struct Name {
  const char* name;
  Type type;                    // none: a command
  Answer (*read)(const Call&);  // null: write-only
  int (*write)(const Call&);    // null: read-only. Returns an error, or 0
  Order order = Order::read_first;
  Type written = type;  // of the value that the caller gives
};

// The table.
struct Rows {
  const Name* first;
  unsigned count;
};
extern const Rows kRows;

// Returns the row of a name, and the indexes in `call`; null if there is none.
const Name* find_name(const char* name, Call& call);

// As find_name, of a MIB.
const Name* find_mib(const size_t* mib, size_t length, Call& call);

// Stores the MIB of a name, or of its first `*length` parts, and the number of parts. False if no
// row has the name.
bool make_mib(const char* name, size_t* mib, size_t* length);

}  // namespace near::jemalloc
