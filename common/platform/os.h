// Everything that the allocator asks of the operating system about memory.
//
// The system may refuse every call. A refused call returns null or false, changes nothing, and
// leaves errno as it was; the caller reports ENOMEM or counts it. os_linux.cc implements this file;
// tests link tests/support/fake_os.cc instead, which fails the n-th call of a kind or pretends
// larger pages.
// Thread-safety: any thread. The functions take no locks and do not allocate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::os {

// The page size of this run, a power of two from 4 KiB to 64 KiB.
size_t page_size();

// Bytes of physical memory.
size_t physical_memory();

// Reads the limits of address space and data, and how much memory and swap the machine has. Called
// only at start and after the program changed a limit: a sandbox may kill the process for asking at
// another time.
void record_limits();

// The smaller of the limits of address space (RLIMIT_AS) and data (RLIMIT_DATA), in bytes, as
// record_limits last read them; SIZE_MAX if there is none.
size_t limit();

// True if the system refuses `bytes` in one request, however much is given back first: they exceed
// the limit, or memory and swap together, and an attempt to map them failed.
bool refuses(size_t bytes);

// True if the system would map `bytes` now.
bool grants(size_t bytes);

// False if the system counts memory that is mapped, and not only what was touched
// (vm.overcommit_memory is 2). Reads a file: for the library's start only, because a program may
// give up the right to open files later.
bool overcommits();

// How many mappings a process may have (vm.max_map_count); kUsualMappings if the file cannot be
// read. Reads a file, as above.
inline constexpr size_t kUsualMappings = 65'530;
size_t most_mappings();

// An address near the end of what the program may use, and over how many bytes below it memory may
// lie: all, unless a sanitizer has its own memory there; 0 if memory is to lie at the same place in
// every run.
struct Landmark {
  uintptr_t address;
  size_t spread;
};
Landmark landmark();

// Maps zeroed memory, readable and writable, at `start` and nowhere else. `occupied`: another
// mapping is there, or the system places no mapping at this address.
enum class Mapped : uint8_t { done, refused, occupied };
Mapped map(void* start, size_t bytes);

// As `map`, at an address that the system chooses, a multiple of `alignment` (a power of two). Null
// if refused.
void* map_anywhere(size_t bytes, size_t alignment);

// Unmaps whole pages: gives back their memory and their address space.
bool unmap(void* start, size_t bytes);

// Reserves inaccessible address space of `bytes`, aligned to `alignment` (a power of two). Null if
// refused.
void* reserve(size_t bytes, size_t alignment);

// Gives address space from `reserve` back.
void unreserve(void* start, size_t bytes);

// Makes reserved pages readable: they are zero and cost no memory.
bool make_readable(void* start, size_t bytes);

// Makes reserved pages readable and writable; they are zero when first touched.
bool commit(void* start, size_t bytes);

// Moves pages to `to`, over the mapping there, and makes their mapping `to_bytes` long; nothing is
// mapped at `from` then. The range at `from` is of a single mapping, and the ranges do not overlap.
// If refused, `from` is as before, and `to` may be unmapped.
bool move(void* from, size_t from_bytes, void* to, size_t to_bytes);

// False once a filter of system calls has refused to move pages.
bool can_move();

// Drops the contents of committed or mapped pages: they stay usable and read as zero.
bool purge(void* start, size_t bytes);

// Makes mapped pages resident and keeps their contents. False if memory does not suffice.
bool populate(void* start, size_t bytes);

// Makes pages that are not yet touched prefer (with `strict`: require) memory of NUMA node `node`
// (kernel number).
bool bind(void* start, size_t bytes, unsigned node, bool strict);

// Asks on which NUMA node (kernel number) each of `count` pages lies; a page is named by any
// address in it. -1 if it has no memory. Slow. False if the system refuses.
bool locate(void* const* pages, size_t count, int* nodes);

// Advises the system to use (`on`) or not to use transparent huge pages for the range.
bool advise_huge_pages(void* start, size_t bytes, bool on);

// Writes a zero to a byte of committed memory that was not written before. Returns how many ns that
// took, the page fault included.
uint64_t touch(void* byte);

}  // namespace near::os
