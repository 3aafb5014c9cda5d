#include "shim/cxx_runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "base/compiler.h"
#include "platform/loaded.h"
#include "platform/message.h"
#include "sizes/size_class.h"

namespace near {
namespace {

using Destroy = void (*)(void*);

#define NEAR_OF_RUNTIME(name) __asm__(name) __attribute__((weak, visibility("default")))

// Weak references: null where no runtime is linked, or where a static program omits that part.
extern "C" {
NewHandler linked_get_new_handler() NEAR_OF_RUNTIME("_ZSt15get_new_handlerv");
void* linked_allocate_exception(size_t size) NEAR_OF_RUNTIME("__cxa_allocate_exception");
void linked_throw(void* exception, void* type, Destroy destroy) NEAR_OF_RUNTIME("__cxa_throw");
extern char linked_bad_alloc_type[] NEAR_OF_RUNTIME("_ZTISt9bad_alloc");
extern const void* linked_bad_alloc_table[] NEAR_OF_RUNTIME("_ZTVSt9bad_alloc");
void linked_bad_alloc_destroy(void* object) NEAR_OF_RUNTIME("_ZNSt9bad_allocD1Ev");
extern const void* linked_si_type_table[] NEAR_OF_RUNTIME(
    "_ZTVN10__cxxabiv120__si_class_type_infoE");
extern char linked_exception_type[] NEAR_OF_RUNTIME("_ZTISt9exception");
}

// The name that identifies a runtime. (Tools that watch exceptions define __cxa_throw.)
constexpr char kMark[] = "__cxa_allocate_exception";

// Returns a definition of the name elsewhere in the process.
void* find_loaded(const char* name, const void* caller) {
  if (void* found = dlsym(RTLD_DEFAULT, name)) return found;
  return LoadedObject::defining(kMark, caller).symbol(name);
}

template <class Function>
Function* find(Function* linked, const char* name, const void* caller) {
  if (linked != nullptr) return linked;
  return reinterpret_cast<Function*>(find_loaded(name, caller));
}

// An object of a class with virtual functions and no data. Its pointer, and the pointer in a type,
// lead behind the first two words of the table: offset and type.
struct Exception {
  const void* const* table;
};

struct BadAlloc {
  void* type = nullptr;
  const void* const* table = nullptr;
  Destroy destroy = nullptr;
};

void destroy_nothing(void*) {}
const char* what(const void*) { return "std::bad_alloc"; }

// A class derived from one other, as the ABI describes it to the runtime.
struct SingleType {
  const void* const* table;
  const char* name;
  const void* base;
};

// std::bad_alloc for a static program that omits its own, since nothing in it names the class: it
// can catch the exception as std::exception or by `...`.
const SingleType kOwnType = {linked_si_type_table + 2, "St9bad_alloc", linked_exception_type};
const void* const kOwnTable[] = {
    nullptr, &kOwnType, reinterpret_cast<const void*>(&destroy_nothing),
    reinterpret_cast<const void*>(&destroy_nothing), reinterpret_cast<const void*>(&what)};

template <class Symbol>
bool is_linked(Symbol* symbol) {
  return symbol != nullptr;
}

BadAlloc own_bad_alloc() {
  if (!is_linked(linked_si_type_table) || !is_linked(linked_exception_type)) return {};
  return {const_cast<SingleType*>(&kOwnType), kOwnTable, destroy_nothing};
}

BadAlloc bad_alloc_of(const void* caller) {
  const BadAlloc its = {find(linked_bad_alloc_type, "_ZTISt9bad_alloc", caller),
                        find(linked_bad_alloc_table, "_ZTVSt9bad_alloc", caller),
                        find(linked_bad_alloc_destroy, "_ZNSt9bad_allocD1Ev", caller)};
  const bool whole = its.type != nullptr && its.table != nullptr && its.destroy != nullptr;
  return whole ? its : own_bad_alloc();
}

}  // namespace

NewHandler CxxRuntime::new_handler() const {
  const auto get = find(linked_get_new_handler, "_ZSt15get_new_handlerv", caller_);
  return get != nullptr ? get() : nullptr;
}

void CxxRuntime::throw_bad_alloc() const {
  const auto allocate = find(linked_allocate_exception, "__cxa_allocate_exception", caller_);
  const auto raise = find(linked_throw, "__cxa_throw", caller_);
  const BadAlloc bad_alloc = bad_alloc_of(caller_);
  if (allocate != nullptr && raise != nullptr && bad_alloc.type != nullptr) {
    auto* const exception = static_cast<Exception*>(allocate(sizeof(Exception)));
    exception->table = bad_alloc.table + 2;
    raise(exception, bad_alloc.type, bad_alloc.destroy);
  }
  message(
      "out of memory in operator new, and no C++ runtime is loaded that could throw "
      "std::bad_alloc");
  abort();
}

void* CxxRuntime::new_nothrow(size_t size, size_t alignment) const {
  const LoadedObject runtime = LoadedObject::defining(kMark, caller_);
  if (alignment <= kBlockAlign) {
    using New = void*(size_t, const std::nothrow_t*);
    const auto make = reinterpret_cast<New*>(runtime.symbol("_ZnwmRKSt9nothrow_t"));
    return make != nullptr ? make(size, nullptr) : nullptr;
  }
  using New = void*(size_t, std::align_val_t, const std::nothrow_t*);
  const auto make = reinterpret_cast<New*>(runtime.symbol("_ZnwmSt11align_val_tRKSt9nothrow_t"));
  return make != nullptr ? make(size, std::align_val_t{alignment}, nullptr) : nullptr;
}

}  // namespace near
