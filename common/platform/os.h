// All that the allocator asks of the operating system's memory: a contract of few functions.
//
// Every call may be refused. A refusal returns null or false, changes nothing, and leaves errno as
// it was; the callers turn it into ENOMEM or a counter. os_linux.cc is the real one; tests link
// tests/support/fake_os.cc in its place, which fails the n-th call of a kind or pretends larger
// pages.
// Thread-safety: any thread; no locks are taken, nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::os {

// The page size of this run, a power of two from 4 KiB to 64 KiB.
size_t page_size();

// Bytes of physical memory.
size_t physical_memory();

// Reads the limits of address space and data, and how much memory and swap there is: at start, and
// when the program has changed a limit. A sandbox may kill the process for asking at another time.
void note_limits();

// The smaller limit of address space (RLIMIT_AS) and data (RLIMIT_DATA) in bytes as noted last;
// SIZE_MAX if there is none.
size_t limit();

// True if the system refuses so much in one request, whatever is given back before: it is more than
// the limit or than memory and swap, and a try shows that the system does not promise it.
bool refuses(size_t bytes);

// True if the system would map so much now.
bool grants(size_t bytes);

// An address near the end of what the program may use, and bits that differ from run to run.
struct Landmark {
  uintptr_t address;
  uint64_t random;
};
Landmark landmark();

// Maps zeroed memory, readable and writable, at `start` and nowhere else. `occupied`: there is a
// mapping already, or the system does not place anything there.
enum class Mapped : uint8_t { done, refused, occupied };
Mapped map(void* start, size_t bytes);

// The same where the system chooses, aligned to `alignment` (a power of two). Null if refused.
void* map_anywhere(size_t bytes, size_t alignment);

// Gives whole pages of mapped memory back, address space and all.
bool unmap(void* start, size_t bytes);

// Reserves inaccessible address space of `bytes`, aligned to `alignment` (a power of two). Null if
// refused.
void* reserve(size_t bytes, size_t alignment);

// Gives address space of `reserve` back.
void unreserve(void* start, size_t bytes);

// Makes reserved pages readable: they are zero and cost no memory.
bool make_readable(void* start, size_t bytes);

// Makes reserved pages readable and writable; they are zero when first touched.
bool commit(void* start, size_t bytes);

// Drops the contents of committed or mapped pages: they stay usable and read as zero.
bool purge(void* start, size_t bytes);

// Makes mapped pages resident, with their contents. False if there is not so much memory.
bool populate(void* start, size_t bytes);

// Prefers (or with `strict` demands) memory of NUMA node `node` (kernel number) for pages not yet
// touched.
bool bind(void* start, size_t bytes, unsigned node, bool strict);

// Asks on which NUMA node (kernel number) each of `count` pages lies, by any address in it: -1 if
// it has no memory. Slow. False if the system does not tell.
bool locate(void* const* pages, size_t count, int* nodes);

// Allows or forbids transparent huge pages for the range. Advice only.
bool advise_huge_pages(void* start, size_t bytes, bool on);

}  // namespace near::os
