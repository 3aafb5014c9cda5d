// Marking by the instructions of marker.h.
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "marker.h"
#include "marking.h"

namespace workload::marking {
namespace {

// The C library keeps 40 MiB of stacks for coming threads: as many as a workload ever needs.
constexpr size_t kStackBytes = size_t{256} << 10;
// What the C library keeps of a thread above its thread-local storage, at least.
constexpr uintptr_t kThreadDescriptor = 2048;

struct Range {
  uintptr_t begin;
  uintptr_t end;
};

bool enabled = false;
Range main_thread{};  // its thread-local storage, or more, and its descriptor

void exclude(Range range) {
  if (range.begin >= range.end) return;
  marker::exclude(reinterpret_cast<const void*>(range.begin),
                  reinterpret_cast<const void*>(range.end - 1));
}

// The segments of an image: where one holds zeros, its mapping looks like heap.
int exclude_image(dl_phdr_info* image, size_t, void*) {
  for (unsigned i = 0; i < image->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = image->dlpi_phdr[i];
    const uintptr_t begin = image->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) exclude({begin, begin + part.p_memsz});
  }
  return 0;
}

int add_thread_local_bytes(dl_phdr_info* image, size_t, void* sum) {
  for (unsigned i = 0; i < image->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = image->dlpi_phdr[i];
    if (part.p_type == PT_TLS) *static_cast<uintptr_t*>(sum) += part.p_memsz + part.p_align;
  }
  return 0;
}

// One line of /proc/self/maps.
void exclude_mapping(const char* line) {
  Range range{};
  char access[5] = "";
  int path = 0;
  if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %n", &range.begin, &range.end,
                  access, &path) < 3 ||
      access[0] != 'r') {
    return;
  }
  const char* const name = line + path;
  const auto is = [name](const char* start) {
    return std::strncmp(name, start, std::strlen(start)) == 0;
  };
  const bool is_shared_memory = is("/dev/zero") || is("/memfd:") || is("/SYSV");
  if ((is("/") && !is_shared_memory) || is("[vdso]") || is("[stack]")) exclude(range);
  // Of the kernel's pages beside its code only the first one is sure to be there.
  if (is("[vvar]")) exclude({range.begin, range.begin + 1});
  exclude({std::max(range.begin, main_thread.begin), std::min(range.end, main_thread.end)});
}

void exclude_mappings() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) {
    std::fprintf(stderr, "--mark: cannot read /proc/self/maps\n");
    std::exit(1);
  }
  char line[4352];  // a path, and what is before it
  while (std::fgets(line, sizeof line, maps) != nullptr) exclude_mapping(line);
  std::fclose(maps);
}

}  // namespace

void enable() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  const bool small = pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                     pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  if (!small) {
    std::fprintf(stderr, "--mark: stacks cannot be made small\n");
    std::exit(1);
  }
  // A thread is named by the address of its descriptor, below which is its thread-local storage.
  const auto descriptor = static_cast<uintptr_t>(pthread_self());
  uintptr_t thread_local_bytes = 0;
  dl_iterate_phdr(add_thread_local_bytes, &thread_local_bytes);
  main_thread = {descriptor - thread_local_bytes, descriptor + kThreadDescriptor};
  enabled = true;
  marker::program();
}

void exclude_thread() {
  if (!enabled) return;
  pthread_attr_t attributes;
  void* stack = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  pthread_attr_getstack(&attributes, &stack, &size);
  pthread_attr_destroy(&attributes);
  const auto begin = reinterpret_cast<uintptr_t>(stack);
  exclude({begin, begin + size});
}

void exclude(const void* pages, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(pages);
  if (enabled) exclude({begin, begin + bytes});
}

void include(const void* pages, size_t bytes) {
  if (enabled && bytes != 0) marker::include(pages, static_cast<const char*>(pages) + bytes - 1);
}

void begin() {
  if (!enabled) return;
  dl_iterate_phdr(exclude_image, nullptr);
  exclude_mappings();
  marker::begin();
}

void end() {
  if (enabled) marker::end();
}

}  // namespace workload::marking
