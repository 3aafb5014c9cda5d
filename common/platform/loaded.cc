#include "platform/loaded.h"

#include <link.h>
#include <sys/auxv.h>

namespace near {
namespace {

using Dynamic = ElfW(Dyn);
using Symbol = ElfW(Sym);

constexpr uint16_t kHiddenVersion = 0x8000;  // not the default version of its symbol

// The hash function of the table DT_GNU_HASH.
uint32_t hash_of(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// strcmp is one of the functions that shim/libc.cc finds by this file.
bool is_same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    a++;
    b++;
  }
  return *a == *b;
}

unsigned type_of(const Symbol& symbol) { return symbol.st_info & 0xF; }

bool is_usable(const Symbol& symbol) {
  return symbol.st_shndx != SHN_UNDEF && type_of(symbol) != STT_TLS;
}

// Calls the function that chooses an implementation, with the arguments that the ABI gives it.
void* choose(uintptr_t resolver) {
#if defined(__aarch64__)
  constexpr uint64_t kHasSecond = uint64_t{1} << 62;
  const uint64_t second[] = {3 * sizeof(uint64_t), getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  using Resolver = void* (*)(uint64_t, const uint64_t*);
  return reinterpret_cast<Resolver>(resolver)(second[1] | kHasSecond, second);
#else
  using Resolver = void* (*)();
  return reinterpret_cast<Resolver>(resolver)();
#endif
}

}  // namespace

LoadedObject::LoadedObject(uintptr_t base, const void* dynamic) : base_(base), dynamic_(dynamic) {
  for (auto entry = static_cast<const Dynamic*>(dynamic); entry->d_tag != DT_NULL; entry++) {
    // The loader has turned offsets into addresses, except in the vDSO, which the kernel maps.
    const uintptr_t place = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr;
    const auto at = reinterpret_cast<const void*>(place);
    if (entry->d_tag == DT_SYMTAB) symbols_ = at;
    if (entry->d_tag == DT_STRTAB) names_ = static_cast<const char*>(at);
    if (entry->d_tag == DT_GNU_HASH) hash_ = static_cast<const uint32_t*>(at);
    if (entry->d_tag == DT_VERSYM) versions_ = static_cast<const uint16_t*>(at);
  }
}

void* LoadedObject::symbol(const char* name) const {
  if (symbols_ == nullptr || names_ == nullptr || hash_ == nullptr) return nullptr;
  // The table: four numbers, a Bloom filter of words, the buckets, and a chain for each bucket.
  const uint32_t buckets = hash_[0];
  const uint32_t first = hash_[1];
  const uint32_t filter = hash_[2];
  const uint32_t* bucket = hash_ + 4 + filter * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chain = bucket + buckets;
  const uint32_t hash = hash_of(name);
  uint32_t index = buckets == 0 ? 0 : bucket[hash % buckets];
  if (index < first) return nullptr;
  for (bool last = false; !last; index++) {
    const uint32_t entry = chain[index - first];
    last = (entry & 1) != 0;  // the lowest bit marks the end of a chain; it is not part of the hash
    if ((entry | 1) != (hash | 1)) continue;
    const Symbol& symbol = static_cast<const Symbol*>(symbols_)[index];
    if (!is_same(names_ + symbol.st_name, name) || !is_usable(symbol)) continue;
    if (versions_ != nullptr && (versions_[index] & kHiddenVersion) != 0) continue;
    const uintptr_t address = base_ + symbol.st_value;
    return type_of(symbol) == STT_GNU_IFUNC ? choose(address) : reinterpret_cast<void*>(address);
  }
  return nullptr;
}

bool LoadedObject::is_named(const char* name) const {
  if (dynamic_ == nullptr || names_ == nullptr) return false;
  for (auto entry = static_cast<const Dynamic*>(dynamic_); entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SONAME) return is_same(names_ + entry->d_un.d_val, name);
  }
  return false;
}

bool LoadedObject::is_linked_to(const LoadedObject& other) const {
  if (dynamic_ == nullptr || names_ == nullptr) return false;
  for (auto entry = static_cast<const Dynamic*>(dynamic_); entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_NEEDED && other.is_named(names_ + entry->d_un.d_val)) return true;
  }
  return false;
}

// Two walks over the objects: the first finds the caller's object, the second finds the best object
// that defines the name.
struct ObjectSearch {
  const char* name;
  uintptr_t caller;
  LoadedObject callers{};
  LoadedObject best{};
  int best_rank = 0;

  static LoadedObject object_of(const dl_phdr_info& info) {
    for (int i = 0; i < info.dlpi_phnum; i++) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      if (segment.p_type != PT_DYNAMIC) continue;
      return {info.dlpi_addr, reinterpret_cast<const void*>(info.dlpi_addr + segment.p_vaddr)};
    }
    return {};
  }

  static int find_caller(dl_phdr_info* info, size_t, void* argument) {
    auto& search = *static_cast<ObjectSearch*>(argument);
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      const uintptr_t offset = search.caller - (info->dlpi_addr + segment.p_vaddr);
      if (segment.p_type != PT_LOAD || offset >= segment.p_memsz) continue;
      search.callers = object_of(*info);
      return 1;
    }
    return 0;
  }

  static int find_best(dl_phdr_info* info, size_t, void* argument) {
    auto& search = *static_cast<ObjectSearch*>(argument);
    const LoadedObject object = object_of(*info);
    if (object.symbol(search.name) == nullptr) return 0;
    int rank = 1;
    if (search.callers.is_linked_to(object)) rank = 2;
    if (search.callers.dynamic_ == object.dynamic_) rank = 3;
    if (rank > search.best_rank) {
      search.best = object;
      search.best_rank = rank;
    }
    return 0;
  }
};

LoadedObject LoadedObject::defining(const char* name, const void* caller) {
  ObjectSearch search{.name = name, .caller = reinterpret_cast<uintptr_t>(caller)};
  dl_iterate_phdr(ObjectSearch::find_caller, &search);
  dl_iterate_phdr(ObjectSearch::find_best, &search);
  return search.best;
}

}  // namespace near
