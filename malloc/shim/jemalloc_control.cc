// The functions mallctl*, as documented by jemalloc 5.3, with this allocator's numbers. Only
// libraries with the standard names export these functions (docs/jemalloc.md).
//
// In a process with another malloc every name is unknown: the numbers would describe an idle
// allocator.
// Thread-safety: any thread, without locks held.
#include <dlfcn.h>

#include <cerrno>
#include <cstring>

#include "base/atomic.h"
#include "front/thread.h"
#include "inspect/node_statistics.h"
#include "inspect/statistics.h"
#include "node/memory.h"
#include "shim/jemalloc_names.h"
#include "shim/replaceable.h"

namespace near::jemalloc {
namespace {

// True if the process's malloc gives blocks of this library, perhaps through a preloaded wrapper.
bool serves_process() {
  using Malloc = void*(size_t);
  using Free = void(void*);
  auto* const malloc = reinterpret_cast<Malloc*>(dlsym(RTLD_DEFAULT, "malloc"));
  auto* const free = reinterpret_cast<Free*>(dlsym(RTLD_DEFAULT, "free"));
  if (malloc == nullptr || free == nullptr) return true;  // a static program
  void* const block = malloc(1);
  const bool is_ours = span_of(block) != nullptr;
  free(block);
  return is_ours;
}

// 0; ENOENT if another malloc serves the process; EAGAIN if a handler interrupted the allocator.
int begin() {
  enum : uint8_t { unknown, served, other };
  static constinit Atomic<uint8_t> state{unknown};
  if (is_inside()) return EAGAIN;
  start_library();
  if (state.load(kRelaxed) == unknown) {                       // relaxed: all threads find the same
    state.store(serves_process() ? served : other, kRelaxed);  // relaxed: as above
  }
  return state.load(kRelaxed) == served ? 0 : ENOENT;  // relaxed: as above
}

// The arguments of a caller of mallctl.
struct Buffers {
  void* old;
  size_t* old_length;
  void* value;
  size_t value_length;

  bool reads() const { return old != nullptr || old_length != nullptr; }
  bool writes() const { return value != nullptr || value_length != 0; }
  bool has_room(const Name& name) const {
    return old != nullptr && old_length != nullptr && *old_length == bytes_of(name.type);
  }
};

// EPERM if the row does not allow the call; EINVAL if the answer needs room and has none.
int refuse(const Name& name, const Buffers& buffers) {
  const bool is_command = name.type == Type::none;
  if ((is_command || name.write == nullptr) && buffers.writes()) return EPERM;
  if (name.read == nullptr && buffers.reads()) return EPERM;
  if (name.order == Order::only_whole && !buffers.has_room(name)) {
    if (buffers.old_length != nullptr) *buffers.old_length = 0;
    return EINVAL;
  }
  return 0;
}

// Copies the answer, cut to the room for it. EINVAL if the room has another length.
int give(const Name& name, uint64_t value, const Buffers& buffers) {
  if (buffers.old == nullptr || buffers.old_length == nullptr) return 0;
  const bool is_right = buffers.has_room(name);
  *buffers.old_length = min_of(*buffers.old_length, bytes_of(name.type));
  memcpy(buffers.old, &value, *buffers.old_length);  // the low bytes come first
  return is_right ? 0 : EINVAL;
}

int answer(const Name& name, const Call& call, const Buffers& buffers) {
  if (name.read == nullptr) return 0;
  if (name.order != Order::only_whole && buffers.old == nullptr) return 0;
  const Answer answer = name.read(call);
  return answer.error != 0 ? answer.error : give(name, answer.value, buffers);
}

int run(const Name& name, Call& call, const Buffers& buffers) {
  if (const int error = refuse(name, buffers)) return error;
  call.has_value = buffers.value != nullptr;
  const bool is_wrong = call.has_value && buffers.value_length != bytes_of(name.written);
  if (is_wrong && name.order != Order::read_first) return EINVAL;
  if (call.has_value && !is_wrong) memcpy(&call.value, buffers.value, buffers.value_length);
  const bool takes =
      name.read == nullptr || call.has_value;  // a write-only name acts without a value
  if (name.order == Order::write_first) {
    const int error = call.has_value ? name.write(call) : 0;
    return error != 0 ? error : answer(name, call, buffers);
  }
  if (name.order == Order::only_whole && name.write != nullptr && !call.has_value) return EINVAL;
  if (const int error = answer(name, call, buffers)) return error;
  if (is_wrong) return EINVAL;
  return takes ? name.write(call) : 0;
}

}  // namespace
}  // namespace near::jemalloc

extern "C" {

NEAR_REPLACEABLE int mallctl(const char* name, void* old, size_t* old_length, void* value,
                             size_t value_length) noexcept {
  using namespace near::jemalloc;
  if (const int error = begin()) return error;
  Call call{};
  const Name* const row = find_name(name, call);
  if (row == nullptr) return ENOENT;
  return run(*row, call, {old, old_length, value, value_length});
}

NEAR_REPLACEABLE int mallctlnametomib(const char* name, size_t* mib, size_t* length) noexcept {
  using namespace near::jemalloc;
  if (const int error = begin()) return error;
  return make_mib(name, mib, length) ? 0 : ENOENT;
}

NEAR_REPLACEABLE int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_length,
                                  void* value, size_t value_length) noexcept {
  using namespace near::jemalloc;
  if (const int error = begin()) return error;
  Call call{};
  const Name* const row = find_mib(mib, length, call);
  if (row == nullptr) return ENOENT;
  return run(*row, call, {old, old_length, value, value_length});
}

NEAR_REPLACEABLE void malloc_stats_print(void (*write)(void*, const char*), void* opaque,
                                         const char* options) noexcept {
  if (near::jemalloc::begin() != 0) return;
  const near::Out out(write, opaque);
  if (options != nullptr && strchr(options, 'J') != nullptr)
    return near::write_statistics_json(out);
  near::write_statistics_text(out);
}

}  // extern "C"
