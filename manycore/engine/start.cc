// The start and the end of the engine, and what it takes from the host.
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/description.h"
#include "engine/fiber.h"
#include "engine/host.h"
#include "engine/profile.h"

namespace near::manycore {
namespace {

Pages the_pages;
uint64_t random_state;
uint64_t host_start;
struct sigaction before[NSIG];

void gone(uintptr_t begin, size_t bytes) { memory.forget(begin, bytes); }

uint64_t next_random(uint64_t& state) {  // SplitMix64
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

uint64_t host_clock() {
  timespec time{};
  host_call(SYS_clock_gettime, CLOCK_MONOTONIC, word(&time));
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// The kernel's random bytes for this process, from which libraries make seeds.
void replace_kernel_random(uint64_t seed) {
  if (auto* const bytes = reinterpret_cast<uint64_t*>(getauxval(AT_RANDOM))) {
    bytes[0] = next_random(seed);
    bytes[1] = next_random(seed);
  }
}

// A fatal signal writes the result, then has its effect.
void on_signal(int signal) {
  sigaction(signal, &before[signal], nullptr);
  char text[32];
  std::snprintf(text, sizeof text, "signal %d", signal);
  finish(text);
  raise(signal);
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    sigaction(signal, &action, &before[signal]);
  }
}

// The dynamic symbols of libc.
struct Libc {
  uintptr_t base = 0;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Half)* versions = nullptr;
  size_t count = 0;
};
Libc libc;

// The number of symbols, which only the hash table tells.
size_t symbol_count(const uint32_t* hash) {
  const uint32_t bucket_count = hash[0], first = hash[1], bloom = hash[2];
  const uint32_t* const buckets = hash + 4 + bloom * 2;
  const uint32_t* const chain = buckets + bucket_count;
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; ++i) last = buckets[i] > last ? buckets[i] : last;
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

int find_libc(dl_phdr_info* info, size_t, void*) {
  const char* const name = std::strrchr(info->dlpi_name, '/');
  if (name == nullptr || std::strcmp(name, "/libc.so.6") != 0) return 0;
  libc.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const uintptr_t value = entry->d_un.d_ptr;  // glibc relocated it
      if (entry->d_tag == DT_SYMTAB) libc.symbols = reinterpret_cast<const ElfW(Sym)*>(value);
      if (entry->d_tag == DT_STRTAB) libc.names = reinterpret_cast<const char*>(value);
      if (entry->d_tag == DT_VERSYM) libc.versions = reinterpret_cast<const ElfW(Half)*>(value);
      if (entry->d_tag == DT_GNU_HASH) {
        libc.count = symbol_count(reinterpret_cast<const uint32_t*>(value));
      }
    }
  }
  return 1;
}

void start(char** environment) {
  const char* path = nullptr;
  constexpr char kName[] = "NEAR_MANYCORE_RUN=";
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, kName, sizeof kName - 1) == 0) {
      path = *environment + sizeof kName - 1;
    }
  }
  if (path == nullptr) fail("NEAR_MANYCORE_RUN names no description");
  host_start = host_clock();
  read_description(path);
  random_state = description().seed;
  replace_kernel_random(description().seed + 1);
  memory.create(machine(), reserve);
  the_pages.create(machine(), reserve, gone);
  start_profile();
  start_scheduler();
  adopt_main_thread();
  catch_signals();
  simulated = true;
}

// This library starts before the C library, so the allocator's first call comes when the latter has
// no environment yet. A design reads its switches then.
__attribute__((constructor(101))) void give_environment(int, char**, char** environment) {
  environ = environment;
}

__attribute__((constructor)) void construct(int, char**, char** environment) {
  start(environment);
}
__attribute__((destructor)) void destruct() { finish("exit"); }

}  // namespace

void fail(const char* format, ...) {
  simulated = false;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  const size_t bytes = std::min(static_cast<size_t>(length), sizeof text - 2);
  text[bytes] = '\n';
  static_cast<void>(write(2, "manycore: ", 10));
  static_cast<void>(write(2, text, bytes + 1));
  host_call(SYS_exit_group, 70);
  __builtin_unreachable();
}

void* reserve(size_t bytes) {
  constexpr size_t kChunk = size_t{1} << 20;
  static char* next = nullptr;
  static size_t left = 0;
  bytes = (bytes + 63) / 64 * 64;
  const auto map = [](size_t size) {
    const long got = host_call(SYS_mmap, 0, static_cast<long>(size), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got < 0) fail("the host has no memory left for the simulation");
    return reinterpret_cast<char*>(got);
  };
  if (bytes >= kChunk) return map((bytes + 4095) / 4096 * 4096);
  if (bytes > left) {
    next = map(kChunk);
    left = kChunk;
  }
  left -= bytes;
  return std::exchange(next, next + bytes);
}

void* real(const char* name) {
  if (libc.base == 0) dl_iterate_phdr(find_libc, nullptr);
  constexpr ElfW(Half) kHidden = 0x8000;  // not the default version
  for (size_t i = 0; i < libc.count; ++i) {
    const ElfW(Sym)& symbol = libc.symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || (libc.versions[i] & kHidden) != 0) continue;
    if (std::strcmp(libc.names + symbol.st_name, name) != 0) continue;
    const uintptr_t address = libc.base + symbol.st_value;
    if (ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC) return reinterpret_cast<void*>(address);
    return reinterpret_cast<void* (*)()>(address)();
  }
  fail("libc has no %s", name);
}

Pages& pages() { return the_pages; }
Pages::Caller caller() { return {here->id, here->clock, running_processors(), interrupt}; }
uint64_t random_number() { return next_random(random_state); }
uint64_t host_nanoseconds() { return host_clock() - host_start; }

}  // namespace near::manycore
