// The interposed pthread_create: it chooses a node for the new thread, and changes nothing else.
// The attributes are passed on unchanged; the thread binds itself before it runs.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>

#include "base/atomic.h"
#include "base/compiler.h"
#include "designs/numalloc/binding/binding.h"

namespace {

using Routine = void* (*)(void*);
using Create = int (*)(pthread_t*, const pthread_attr_t*, Routine, void*);

struct Start {
  Routine routine;
  void* argument;
  int node;
};

// The next pthread_create in the order of libraries: the C library's, or a tool's.
Create next_create() {
  static constinit near::Atomic<Create> found{nullptr};
  Create create = found.load(near::kRelaxed);  // relaxed: every thread finds the same function
  if (create == nullptr) {
    create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    found.store(create, near::kRelaxed);  // relaxed: as above
  }
  return create;
}

void* run_bound(void* start) {
  const Start own = *static_cast<Start*>(start);
  near::design::numalloc::binding::bind_self(own.node);
  free(start);
  return own.routine(own.argument);
}

}  // namespace

extern "C" NEAR_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                          Routine routine, void* argument) noexcept {
  const Create create = next_create();
  const int node = near::design::numalloc::binding::choose_node(attributes);
  if (node == near::design::numalloc::binding::kNobody)
    return create(thread, attributes, routine, argument);
  auto* start = static_cast<Start*>(malloc(sizeof(Start)));
  if (start == nullptr) {
    near::design::numalloc::binding::forget_thread(node);
    return create(thread, attributes, routine, argument);
  }
  *start = {routine, argument, node};
  const int error = create(thread, attributes, run_bound, start);
  if (error != 0) {
    free(start);
    near::design::numalloc::binding::forget_thread(node);
  }
  return error;
}
