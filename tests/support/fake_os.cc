#include "support/fake_os.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

#include "base/bits.h"
#include "platform/os.h"
#include "platform/saved_errno.h"

namespace near_test {
namespace {

constexpr size_t kUnit = 4096;  // states are kept for the smallest page there is
constexpr size_t kHugePage = 2 * near::kMiB;
constexpr size_t kMaxAdvice = 1024;
constexpr uint64_t kNever = UINT64_MAX;

enum class State : uint8_t { reserved, readable, committed };

struct Reservation {
  uintptr_t start = 0;
  size_t bytes = 0;
  State* states = nullptr;
  uint16_t* nodes = nullptr;  // 1 + the node a page is bound to

  size_t units() const { return bytes / kUnit; }
  bool contains(uintptr_t address) const { return address - start < bytes; }
};

// Advice is kept for ranges, not pages: the library advises halves of terabytes at once.
struct Advice {
  uintptr_t start = 0;
  size_t bytes = 0;
  bool huge = false;
};

struct Failure {
  uint64_t first = kNever;  // number of the call
  uint64_t last = 0;
};

constinit std::atomic<uint64_t> touch_ns{0};
constinit std::mutex guard;  // of everything below
constinit Advice advice[kMaxAdvice];
constinit size_t advised = 0;
constinit uint64_t counts[kOsCalls + 1] = {};
constinit Failure failures[kOsCalls + 1] = {};
constinit uint64_t refused_by_failure = 0;
constinit uint64_t refused_by_limit = 0;
constinit size_t reserved_total = 0;
constinit size_t committed_total = 0;
constinit size_t commit_limit = SIZE_MAX;
constinit bool occupied_next = false;
constinit uintptr_t lowest_allowed = 0;

constinit std::atomic<size_t> pretended_page{4096};
constinit std::atomic<size_t> pretended_memory{256 * near::kMiB};
constinit std::atomic<size_t> pretended_limit{SIZE_MAX};

[[noreturn]] void breach(const char* call, const void* start, size_t bytes, const char* what) {
  std::fprintf(stderr, "fake_os: %s of %zu bytes at %p: %s\n", call, bytes, start, what);
  std::abort();
}

// Counts a call; true if it is to be refused.
bool refuse(OsCall kind) {
  bool refused = false;
  for (const OsCall which : {kind, OsCall::any}) {
    const auto index = static_cast<unsigned>(which);
    const uint64_t number = ++counts[index];
    refused |= number >= failures[index].first && number <= failures[index].last;
  }
  refused_by_failure += refused ? 1 : 0;
  return refused;
}

void* map_table(size_t bytes) {
  void* table = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) {
    std::perror("fake_os: no memory for its own tables");
    std::abort();
  }
  return table;
}

// Ordered by start. Never destroyed: the library returns memory until the very end.
std::map<uintptr_t, Reservation>& reservations() {
  static auto& all = *new std::map<uintptr_t, Reservation>;
  return all;
}

Reservation* find(uintptr_t address) {
  auto behind = reservations().upper_bound(address);
  if (behind == reservations().begin()) return nullptr;
  Reservation& before = std::prev(behind)->second;
  return before.contains(address) ? &before : nullptr;
}

// The pages of a range that must be whole and inside one reservation.
struct Pages {
  Reservation& in;
  State* states;
  uint16_t* nodes;
  size_t units;

  static Pages of(const char* call, const void* start, size_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(start);
    const size_t page = pretended_page;
    if (bytes == 0) breach(call, start, bytes, "an empty range");
    if (address % page != 0 || bytes % page != 0) {
      breach(call, start, bytes, "not made of whole pages");
    }
    Reservation* in = find(address);
    if (in == nullptr || bytes > in->bytes - (address - in->start)) {
      breach(call, start, bytes, "outside of a reservation");
    }
    const size_t first = (address - in->start) / kUnit;
    return {*in, in->states + first, in->nodes + first, bytes / kUnit};
  }
  size_t count(State state) const {
    return static_cast<size_t>(std::count(states, states + units, state));
  }
  void set(State state) const { std::fill_n(states, units, state); }
};

void add_reservation(uintptr_t start, size_t bytes) {
  reservations()[start] = {start, bytes, static_cast<State*>(map_table(bytes / kUnit)),
                           static_cast<uint16_t*>(map_table(bytes / kUnit * sizeof(uint16_t)))};
  reserved_total += bytes;
}

// Room for `bytes` more, by the limits of address space and of committed memory.
bool is_allowed(uintptr_t start, size_t bytes) {
  const size_t limit = pretended_limit;
  const bool allowed = start >= lowest_allowed && bytes <= limit &&
                       reserved_total <= limit - bytes && bytes <= commit_limit &&
                       committed_total <= commit_limit - bytes;
  refused_by_limit += allowed ? 0 : 1;
  return allowed;
}

void add_committed(uintptr_t start, size_t bytes) {
  add_reservation(start, bytes);
  Pages::of("map", reinterpret_cast<void*>(start), bytes).set(State::committed);
  committed_total += bytes;
}

// Cuts a range out of its reservation. What is left of that keeps its part of the tables.
void cut(Reservation& entry, uintptr_t start, size_t bytes) {
  const Reservation whole = entry;
  const size_t before = start - whole.start;
  const size_t behind = whole.bytes - before - bytes;
  reserved_total -= bytes;
  entry.bytes = before;
  if (before == 0) reservations().erase(whole.start);
  if (behind == 0) return;
  const size_t first = (before + bytes) / kUnit;
  const uintptr_t rest = start + bytes;
  reservations()[rest] = {rest, behind, whole.states + first, whole.nodes + first};
}

void* map_aligned(size_t bytes, size_t alignment) {
  void* mapped = mmap(nullptr, bytes + alignment, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t start = near::align_up(first, alignment);
  if (start != first) munmap(mapped, start - first);
  munmap(reinterpret_cast<void*>(start + bytes), first + alignment - start);
  return reinterpret_cast<void*>(start);
}

int advice_at(uintptr_t address) {
  for (size_t i = advised; i > 0 && i + kMaxAdvice > advised; i--) {
    const Advice& each = advice[(i - 1) % kMaxAdvice];
    if (address - each.start < each.bytes) return each.huge ? 1 : 0;
  }
  return -1;
}

// The resident bytes of up to 2 MiB. Memory here has small pages, see `map`.
size_t resident_in(uintptr_t start, size_t bytes) {
  unsigned char pages[kHugePage / kUnit];
  if (mincore(reinterpret_cast<void*>(start), bytes, pages) != 0) return 0;
  const auto is_resident = [](unsigned char page) { return (page & 1) != 0; };
  return static_cast<size_t>(std::count_if(pages, pages + bytes / kUnit, is_resident)) * kUnit;
}

OsCall kind_of(std::string_view name) {
  for (unsigned i = 0; i <= kOsCalls; i++) {
    if (name == name_of(static_cast<OsCall>(i))) return static_cast<OsCall>(i);
  }
  std::fprintf(stderr, "fake_os: there is no call %.*s\n", static_cast<int>(name.size()),
               name.data());
  std::abort();
}

void set_by_text(std::string_view name, const char* value) {
  const size_t number = std::strtoull(value, nullptr, 10);
  if (name == "page") return fake_os::set_page_size(number);
  if (name == "memory") return fake_os::set_physical_memory(number);
  if (name == "address_space") return fake_os::set_address_space_limit(number);
  if (name == "commit") return fake_os::set_commit_limit(number);
  const char* colon = std::strchr(value, ':');
  if (name != "fail" || colon == nullptr) {
    std::fprintf(stderr, "fake_os: NEAR_FAKE_OS is not understood at '%s'\n", value);
    std::abort();
  }
  char* rest = nullptr;
  const uint64_t nth = std::strtoull(colon + 1, &rest, 10);
  const auto kind = kind_of({value, static_cast<size_t>(colon - value)});
  fake_os::fail(kind, nth, std::strncmp(rest, ":forever", 8) == 0);
}

// Handlers before a fork run in the opposite order: so a fork takes this lock after the library's
// locks, under which other calls take it.
void handle_forks() {
  pthread_atfork([] { guard.lock(); }, [] { guard.unlock(); }, [] { guard.unlock(); });
}

// Before the library's constructor, which asks for memory and handles forks.
__attribute__((constructor(101))) void start() {
  handle_forks();
  const char* at = std::getenv("NEAR_FAKE_OS");
  while (at != nullptr && *at != '\0') {
    const char* equals = std::strchr(at, '=');
    if (equals == nullptr) break;
    set_by_text({at, static_cast<size_t>(equals - at)}, equals + 1);
    at = std::strchr(equals, ',');
    if (at != nullptr) at++;
  }
}

}  // namespace

const char* name_of(OsCall kind) {
  static constexpr const char* kNames[] = {"reserve", "make_readable", "commit", "purge",
                                           "bind",    "locate",        "advise", "map",
                                           "unmap",   "move",          "any"};
  return kNames[static_cast<unsigned>(kind)];
}

namespace fake_os {

void fail(OsCall kind, uint64_t nth, bool forever) {
  const std::lock_guard lock(guard);
  const auto index = static_cast<unsigned>(kind);
  const uint64_t first = counts[index] + nth;
  failures[index] = {first, forever ? kNever : first};
}

void fail_none() {
  const std::lock_guard lock(guard);
  for (Failure& failure : failures) failure = Failure{};
}

uint64_t calls(OsCall kind) {
  const std::lock_guard lock(guard);
  return counts[static_cast<unsigned>(kind)];
}

uint64_t refusals() {
  const std::lock_guard lock(guard);
  return refused_by_failure;
}

uint64_t shortages() {
  const std::lock_guard lock(guard);
  return refused_by_limit;
}

void set_page_size(size_t bytes) { pretended_page = bytes; }
void set_physical_memory(size_t bytes) { pretended_memory = bytes; }
void set_address_space_limit(size_t bytes) { pretended_limit = bytes; }

void set_commit_limit(size_t bytes) {
  const std::lock_guard lock(guard);
  commit_limit = bytes;
}

size_t reserved_bytes() {
  const std::lock_guard lock(guard);
  return reserved_total;
}

size_t committed_bytes() {
  const std::lock_guard lock(guard);
  return committed_total;
}

bool is_committed(const void* address) {
  const std::lock_guard lock(guard);
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Reservation* in = find(at);
  return in != nullptr && in->states[(at - in->start) / kUnit] == State::committed;
}

int bound_node(const void* address) {
  const std::lock_guard lock(guard);
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Reservation* in = find(at);
  return in == nullptr ? -1 : in->nodes[(at - in->start) / kUnit] - 1;
}

void move_page(const void* address, unsigned node) {
  const std::lock_guard lock(guard);
  const auto at = reinterpret_cast<uintptr_t>(address);
  const Reservation* in = find(at);
  if (in != nullptr) in->nodes[(at - in->start) / kUnit] = static_cast<uint16_t>(node + 1);
}

int huge_page_advice(const void* address) {
  const std::lock_guard lock(guard);
  return advice_at(reinterpret_cast<uintptr_t>(address));
}

size_t resident_bytes(HugePages setting) {
  const std::lock_guard lock(guard);
  size_t sum = 0;
  for (const auto& [start, each] : reservations()) {
    for (uintptr_t at = start; at < start + each.bytes;) {
      const uintptr_t next = near::align_down(at, kHugePage) + kHugePage;
      const size_t part = std::min(next, start + each.bytes) - at;
      const size_t written = resident_in(at, part);
      const int advised_here = advice_at(at);
      const bool huge = part == kHugePage && written > 0 && setting != HugePages::never &&
                        (advised_here == 1 || (advised_here < 0 && setting == HugePages::always));
      sum += huge ? kHugePage : written;
      at += part;
    }
  }
  return sum;
}

void set_touch_ns(uint64_t ns) { touch_ns = ns; }

void occupy_next() {
  const std::lock_guard lock(guard);
  occupied_next = true;
}

void refuse_below(uintptr_t address) {
  const std::lock_guard lock(guard);
  lowest_allowed = address;
}

PageSize::PageSize(size_t bytes) : before_(pretended_page) { set_page_size(bytes); }
PageSize::~PageSize() { set_page_size(before_); }

}  // namespace fake_os
}  // namespace near_test

namespace near::os {

using namespace near_test;

size_t page_size() { return pretended_page; }
size_t physical_memory() { return pretended_memory; }
void record_limits() {}
size_t limit() { return pretended_limit; }

bool refuses(size_t bytes) {
  const std::lock_guard lock(guard);
  refused_by_limit += bytes > pretended_limit ? 1 : 0;
  return bytes > pretended_limit;
}

bool grants(size_t bytes) {
  const std::lock_guard lock(guard);
  return is_allowed(UINTPTR_MAX, bytes);
}

bool overcommits() { return true; }
size_t most_mappings() { return kUsualMappings; }

// The same in every run, so that simulations are: windows lie where the system maps nothing by
// itself, and where TSan takes memory for a program's.
Landmark landmark() { return {uintptr_t{0x7f60'0000'0000}, 0}; }

Mapped map(void* start, size_t bytes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  const auto address = reinterpret_cast<uintptr_t>(start);
  if (bytes == 0 || address % pretended_page != 0 || bytes % pretended_page != 0) {
    breach("map", start, bytes, "not made of whole pages");
  }
  if (refuse(OsCall::map)) return Mapped::refused;
  const bool occupied = occupied_next;
  occupied_next = false;
  if (occupied) {
    mmap(start, kUnit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return Mapped::occupied;
  }
  if (!is_allowed(address, bytes)) return Mapped::refused;
  void* mapped = mmap(start, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == MAP_FAILED) return errno == EEXIST ? Mapped::occupied : Mapped::refused;
  if (mapped != start) {
    munmap(mapped, bytes);
    return Mapped::occupied;
  }
  madvise(start, bytes, MADV_NOHUGEPAGE);  // whatever the machine of the test does
  add_committed(address, bytes);
  return Mapped::done;
}

void* map_anywhere(size_t bytes, size_t alignment) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  if (bytes == 0 || bytes % pretended_page != 0 || !is_power_of_two(alignment)) {
    breach("map_anywhere", nullptr, bytes, "not made of whole pages");
  }
  if (refuse(OsCall::map) || !is_allowed(0, bytes)) return nullptr;
  void* start = map_aligned(bytes, std::max<size_t>(alignment, pretended_page));
  if (start == nullptr) return nullptr;
  mprotect(start, bytes, PROT_READ | PROT_WRITE);
  add_committed(reinterpret_cast<uintptr_t>(start), bytes);
  return start;
}

// Ends the states of mapped pages. The range may also span several adjacent mappings.
static void forget(void* start, size_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(start);
  for (uintptr_t at = from; at < from + bytes;) {
    Reservation* in = find(at);
    if (in == nullptr) breach("unmap", start, bytes, "outside of a reservation");
    const size_t part = std::min(in->start + in->bytes, from + bytes) - at;
    const Pages pages = Pages::of("unmap", reinterpret_cast<void*>(at), part);
    if (pages.count(State::committed) != pages.units) {
      breach("unmap", start, bytes, "it is not mapped");
    }
    committed_total -= part;
    cut(*in, at, part);
    at += part;
  }
  for (Advice& each : advice) {
    if (each.start - from < bytes) each = Advice{};
  }
}

bool unmap(void* start, size_t bytes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  if (refuse(OsCall::unmap)) return false;
  forget(start, bytes);
  munmap(start, bytes);
  return true;
}

bool can_move() { return true; }

bool move(void* from, size_t from_bytes, void* to, size_t to_bytes) {
  {
    const std::lock_guard lock(guard);
    if (refuse(OsCall::move)) return false;
    if (mremap(from, from_bytes, to_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) {
      breach("move", from, from_bytes, "it is no single mapping");
    }
    forget(from, from_bytes);
  }
  return true;
}

void* reserve(size_t bytes, size_t alignment) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  if (bytes == 0 || bytes % pretended_page != 0 || !is_power_of_two(alignment)) {
    breach("reserve", nullptr, bytes, "not made of whole pages");
  }
  if (refuse(OsCall::reserve)) return nullptr;
  alignment = std::max<size_t>(alignment, pretended_page);
  const size_t limit = pretended_limit;
  if (bytes > limit || alignment > limit - bytes) return nullptr;
  if (reserved_total > limit - bytes - alignment) return nullptr;
  void* start = map_aligned(bytes, alignment);
  if (start != nullptr) add_reservation(reinterpret_cast<uintptr_t>(start), bytes);
  return start;
}

void unreserve(void* start, size_t bytes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  Reservation* entry = find(reinterpret_cast<uintptr_t>(start));
  if (entry == nullptr || entry->start != reinterpret_cast<uintptr_t>(start) ||
      entry->bytes != bytes) {
    breach("unreserve", start, bytes, "not what was reserved");
  }
  committed_total -= Pages::of("unreserve", start, bytes).count(State::committed) * kUnit;
  reserved_total -= bytes;
  munmap(entry->states, entry->units());
  munmap(entry->nodes, entry->units() * sizeof(uint16_t));
  for (Advice& each : advice) {
    if (entry->contains(each.start)) each = Advice{};
  }
  reservations().erase(reinterpret_cast<uintptr_t>(start));
  munmap(start, bytes);
}

bool make_readable(void* start, size_t bytes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  const Pages pages = Pages::of("make_readable", start, bytes);
  if (pages.count(State::committed) > 0) {
    breach("make_readable", start, bytes, "it would lose the right to write");
  }
  if (refuse(OsCall::make_readable)) return false;
  if (mprotect(start, bytes, PROT_READ) != 0) return false;
  pages.set(State::readable);
  return true;
}

bool commit(void* start, size_t bytes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  const Pages pages = Pages::of("commit", start, bytes);
  if (refuse(OsCall::commit)) return false;
  const size_t more = (pages.units - pages.count(State::committed)) * kUnit;
  if (more > commit_limit || committed_total > commit_limit - more) return false;
  if (mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  pages.set(State::committed);
  committed_total += more;
  return true;
}

bool purge(void* start, size_t bytes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  const Pages pages = Pages::of("purge", start, bytes);
  if (pages.count(State::committed) != pages.units) {
    breach("purge", start, bytes, "it is not committed");
  }
  if (refuse(OsCall::purge)) return false;
  return madvise(start, bytes, MADV_DONTNEED) == 0;
}

bool populate(void* start, size_t bytes) {
  const std::lock_guard lock(guard);
  Pages::of("populate", start, bytes);
  auto* byte = static_cast<volatile char*>(start);
  for (size_t at = 0; at < bytes; at += kUnit) byte[at] = byte[at];
  return true;
}

// The range may also span several adjacent mappings.
bool bind(void* start, size_t bytes, unsigned node, bool) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  if (refuse(OsCall::bind)) return false;
  const auto from = reinterpret_cast<uintptr_t>(start);
  for (uintptr_t at = from; at < from + bytes || bytes == 0;) {
    const Reservation* in = find(at);
    const size_t part = in == nullptr ? bytes : std::min(in->start + in->bytes, from + bytes) - at;
    const Pages pages = Pages::of("bind", reinterpret_cast<void*>(at), part);
    std::fill_n(pages.nodes, pages.units, static_cast<uint16_t>(node + 1));
    at += part;
  }
  return true;
}

bool locate(void* const* pages, size_t count, int* nodes) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  if (refuse(OsCall::locate)) return false;
  for (size_t i = 0; i < count; i++) {
    const uintptr_t page = align_down(reinterpret_cast<uintptr_t>(pages[i]), pretended_page);
    const Reservation* in = find(page);
    unsigned char resident = 0;
    const bool present = in != nullptr &&
                         mincore(reinterpret_cast<void*>(page), 1, &resident) == 0 &&
                         (resident & 1) != 0;
    // Pages that no call bound lie on the first node.
    nodes[i] = present ? std::max(in->nodes[(page - in->start) / kUnit] - 1, 0) : -1;
  }
  return true;
}

bool advise_huge_pages(void* start, size_t bytes, bool on) {
  const SavedErrno saved;
  const std::lock_guard lock(guard);
  Pages::of("advise_huge_pages", start, bytes);
  if (refuse(OsCall::advise)) return false;
  advice[advised++ % kMaxAdvice] = {reinterpret_cast<uintptr_t>(start), bytes, on};
  return true;
}

uint64_t touch(void* byte) {
  *static_cast<volatile char*>(byte) = 0;
  return touch_ns.load();
}

}  // namespace near::os
