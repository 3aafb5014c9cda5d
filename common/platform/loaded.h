// The objects that the loader has in memory: the program, its libraries and its plugins.
//
// Nothing here allocates, and nothing is loaded: an allocator that has run out of memory may ask.
// What is found stays valid as long as its object is loaded.
// Thread-safety: any thread that holds no lock of the allocator (the loader's lock is taken).
#pragma once

#include <cstdint>

namespace near {

// The object that code at `caller` means by a name that the global scope of the process lacks, as
// a plugin opened with RTLD_LOCAL has its C++ runtime for itself.
class LoadedObject {
 public:
  // The object that defines `name`: that of `caller` itself, else one that it was linked to, else
  // any.
  static LoadedObject defining(const char* name, const void* caller);

  // Null if the object has no such symbol, or is none.
  void* symbol(const char* name) const;

 private:
  friend struct ObjectSearch;
  LoadedObject() = default;
  LoadedObject(uintptr_t base, const void* dynamic);
  bool is_linked_to(const LoadedObject& other) const;

  uintptr_t base_ = 0;
  const void* dynamic_ = nullptr;
  const void* symbols_ = nullptr;
  const char* names_ = nullptr;
  const uint32_t* hash_ = nullptr;
  const uint16_t* versions_ = nullptr;
};

}  // namespace near
