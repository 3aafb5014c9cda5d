// The objects that the loader has in memory: the program, its libraries and its plugins.
//
// No function here allocates or loads an object, so the allocator may call them when memory has run
// out. A result stays valid as long as its object is loaded.
// Thread-safety: any thread; for `defining`, which takes the loader's lock, one that holds no lock
// of the allocator.
#pragma once

#include <cstdint>

namespace near {

// Finds the definition of a symbol that is missing in the global scope of the process. Example: the
// C++ runtime of a plugin that was opened with RTLD_LOCAL.
class LoadedObject {
 public:
  // An object that defines `name`: the one that holds the code at `caller`, else one that this was
  // linked to, else any.
  static LoadedObject defining(const char* name, const void* caller);

  // The object with this load address and dynamic section.
  LoadedObject(uintptr_t base, const void* dynamic);

  // Null if the object does not define the symbol, or if `defining` found no object. For a function
  // with several implementations it returns the one for this processor, as dlsym does.
  void* symbol(const char* name) const;

  // True if `name` is the name by which other objects need this one.
  bool is_named(const char* name) const;

 private:
  friend struct ObjectSearch;
  LoadedObject() = default;
  bool is_linked_to(const LoadedObject& other) const;

  uintptr_t base_ = 0;
  const void* dynamic_ = nullptr;
  const void* symbols_ = nullptr;
  const char* names_ = nullptr;
  const uint32_t* hash_ = nullptr;
  const uint16_t* versions_ = nullptr;
};

}  // namespace near
