// Marking by the instructions of marker.h.
#include <dirent.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "marker.h"
#include "marking.h"

namespace workload::marking {
namespace {

// The C library caches 40 MiB of stacks for later threads: as many as a workload ever needs.
constexpr size_t kStackBytes = size_t{256} << 10;
// The least size of the thread descriptor, which the C library keeps above thread-local storage.
constexpr uintptr_t kThreadDescriptor = 2048;
constexpr uintptr_t kPage = 4096;
// Above the main thread's descriptor, in the same mapping, are the loader's notes of thread-local
// storage, which it reads whenever a thread starts. Memory above them was mapped before any
// allocator's.
constexpr uintptr_t kLoaderNotes = 8 * kPage;

struct Range {
  uintptr_t begin;
  uintptr_t end;
};

bool enabled = false;
Range main_thread{};  // at least its thread-local storage, its descriptor and kLoaderNotes

void exclude(Range range) {
  if (range.begin >= range.end) return;
  marker::exclude(reinterpret_cast<const void*>(range.begin),
                  reinterpret_cast<const void*>(range.end - 1));
}

// Excludes the segments of an image, because the mapping of a zeroed part looks like heap.
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

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "--mark: %s\n", what);
  std::exit(1);
}

struct Mapping {
  Range range;
  const char* name;
};

void exclude_mapping(const Mapping& mapping) {
  const auto [range, name] = mapping;
  const auto is = [name](const char* start) {
    return std::strncmp(name, start, std::strlen(start)) == 0;
  };
  const bool is_shared_memory = is("/dev/zero") || is("/memfd:") || is("/SYSV");
  if ((is("/") && !is_shared_memory) || is("[vdso]") || is("[stack]")) exclude(range);
  // Of the kernel's data, [vvar] and [vvar_vclock], only the first page of [vvar] is certain to
  // exist. They can lie so near to the main thread's descriptor that its range contains them.
  if (is("[vvar]")) exclude({range.begin, range.begin + 1});
  if (is("[vvar")) return;
  exclude({std::max(range.begin, main_thread.begin), std::min(range.end, main_thread.end)});
}

// Calls visit(mapping) for every mapping that can be read.
template <typename Visit>
void for_mappings(Visit visit) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) fail("cannot read /proc/self/maps");
  char line[4352];  // a path and the fields before it
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    Range range{};
    char access[5] = "";
    int path = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %n", &range.begin, &range.end,
                    access, &path) >= 3 &&
        access[0] == 'r') {
      visit(Mapping{range, line + path});
    }
  }
  std::fclose(maps);
}

// An address in a thread's descriptor; 0 if the thread has ended. The descriptor holds the list of
// robust mutexes, so this waits until the thread has registered that list with the kernel.
uintptr_t descriptor_of(pid_t thread) {
  for (int tries = 0; tries < 10'000; ++tries) {
    void* list = nullptr;
    size_t size = 0;
    if (syscall(SYS_get_robust_list, thread, &list, &size) != 0) return 0;
    if (list != nullptr) return reinterpret_cast<uintptr_t>(list);
    usleep(100);
  }
  fail("a thread that is not the C library's");
}

// The C library keeps thread-local storage at the end of a thread's stack, and the descriptor in
// the last page.
uintptr_t end_of_stack(uintptr_t descriptor) { return descriptor / kPage * kPage + kPage; }

// Excludes the stack of a thread that the workload did not start: its mapping begins above its
// guard. The kernel may show memory of another owner behind the stack as the same mapping.
void exclude_stack_of(pid_t thread) {
  const uintptr_t descriptor = descriptor_of(thread);
  for_mappings([descriptor](const Mapping& mapping) {
    const auto [begin, end] = mapping.range;
    if (begin <= descriptor && descriptor < end) exclude({begin, end_of_stack(descriptor)});
  });
}

void exclude_other_threads() {
  DIR* const threads = opendir("/proc/self/task");
  if (threads == nullptr) fail("cannot read /proc/self/task");
  while (const dirent* const entry = readdir(threads)) {
    const auto thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (thread != 0 && thread != gettid()) exclude_stack_of(thread);
  }
  closedir(threads);
}

pthread_barrier_t meeting;

[[noreturn]] void* allocate_and_stay(void*) {
  void* volatile block = std::malloc(64);
  std::free(block);
  pthread_barrier_wait(&meeting);
  while (true) pause();
}

// An allocator with threads of its own starts them at the latest for a second thread. The second
// thread never ends: otherwise the next thread, perhaps on another node, would get its heap.
void have_threads_started() {
  pthread_t second;
  pthread_barrier_init(&meeting, nullptr, 2);
  if (pthread_create(&second, nullptr, allocate_and_stay, nullptr) != 0) {
    fail("cannot start a thread");
  }
  pthread_barrier_wait(&meeting);
  pthread_detach(second);
}

// Excludes the loader's record of each image, which it reads whenever a thread starts.
void exclude_loader_notes() {
  for (const link_map* image = _r_debug.r_map; image != nullptr; image = image->l_next) {
    const auto begin = reinterpret_cast<uintptr_t>(image);
    exclude({begin, begin + sizeof *image});
  }
}

}  // namespace

void enable() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  const bool small = pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                     pthread_setattr_default_np(&attributes) == 0;
  pthread_attr_destroy(&attributes);
  if (!small) fail("stacks cannot be made small");
  // pthread_self() is the address of the descriptor; thread-local storage is below it.
  const auto descriptor = static_cast<uintptr_t>(pthread_self());
  uintptr_t thread_local_bytes = 0;
  dl_iterate_phdr(add_thread_local_bytes, &thread_local_bytes);
  main_thread = {descriptor - thread_local_bytes, descriptor + kThreadDescriptor + kLoaderNotes};
  enabled = true;
  marker::program();
  exclude_loader_notes();
  have_threads_started();
  exclude_other_threads();
}

void exclude_thread() {
  if (!enabled) return;
  // Does not use pthread_getattr_np, which allocates.
  const uintptr_t end = end_of_stack(static_cast<uintptr_t>(pthread_self()));
  exclude({end - kStackBytes, end});
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
  for_mappings(exclude_mapping);
  marker::begin();
}

void end() {
  if (enabled) marker::end();
}

}  // namespace workload::marking
