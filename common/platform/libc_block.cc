#include "platform/libc_block.h"

#include <cstdint>

#include "base/bits.h"
#include "platform/address.h"
#include "platform/loaded.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr uintptr_t kSmallestPage = 4096;

// What glibc keeps before each block (malloc/malloc.c, "struct malloc_chunk").
struct Header {
  static constexpr size_t kFlags = 7;
  static constexpr size_t kPreviousInUse = 1;
  static constexpr size_t kMapped = 2;
  static constexpr size_t kLeast = 2 * sizeof(size_t);

  size_t before;  // of a mapped block: bytes of its mapping before the header
  size_t size;    // from this header to the next, and flags

  size_t bytes() const { return size & ~kFlags; }
};

bool is_page(uintptr_t place) { return place % os::page_size() == 0; }

// Asks the system only if the header is not in the page of `known`, which can be read.
bool can_read(uintptr_t header, uintptr_t known) {
  return header / kSmallestPage == known / kSmallestPage ||
         is_readable(reinterpret_cast<const void*>(header));
}

}  // namespace

bool is_in_c_library(const void* function) {
  LoadedFile file;
  return find_loaded_file(reinterpret_cast<uintptr_t>(function), file) &&
         LoadedObject(file.base, file.dynamic).is_named("libc.so.6");
}

bool looks_like_libc_block(const void* address) {
  const auto block = reinterpret_cast<uintptr_t>(address);
  const uintptr_t at = block - sizeof(Header);
  if (!can_read(at, block)) return false;
  const auto& header = *reinterpret_cast<const Header*>(at);
  const size_t bytes = header.bytes();
  if (bytes < 2 * Header::kLeast || bytes % Header::kLeast != 0) return false;
  if ((header.size & Header::kMapped) != 0) {
    return header.before < at && is_page(at - header.before) && is_page(header.before + bytes);
  }
  const uintptr_t next = at + bytes;
  if (next < at || !can_read(next, block)) return false;
  const auto& behind = *reinterpret_cast<const Header*>(next);
  return (behind.size & Header::kPreviousInUse) != 0 && behind.bytes() >= Header::kLeast;
}

}  // namespace near
