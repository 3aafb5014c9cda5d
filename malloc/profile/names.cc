#include "profile/names.h"

#include <link.h>

#include <algorithm>

#include "base/bits.h"
#include "platform/os.h"
#include "profile/profiler.h"
#include "profile/table.h"

namespace near::profile {
namespace {

// The dynamic symbols of a loaded file.
struct Symbols {
  const ElfW(Sym) * table;
  const char* strings;
  size_t count;
};

// The number of symbols that a GNU hash table leads to: one more than the end of the last chain.
size_t count_of(const uint32_t* hash) {
  const uint32_t buckets = hash[0];
  const uint32_t first = hash[1];
  const uint32_t* bucket = hash + 4 + size_t{hash[2]} * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chains = bucket + buckets;
  size_t last = 0;
  for (uint32_t i = 0; i < buckets; i++) last = max_of(last, bucket[i]);
  if (last < first) return 0;
  while ((chains[last - first] & 1) == 0) last++;
  return last + 1;
}

const ElfW(Dyn) * dynamic_section(const dl_phdr_info& object) {
  for (unsigned i = 0; i < object.dlpi_phnum; i++) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    return reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + segment.p_vaddr);
  }
  return nullptr;
}

// All null if the file has none.
Symbols symbols_of(const dl_phdr_info& object) {
  Symbols out{};
  const ElfW(Dyn)* each = dynamic_section(object);
  for (; each != nullptr && each->d_tag != DT_NULL; each++) {
    // The dynamic linker adds the base where it can write: not in the vDSO.
    uintptr_t at = each->d_un.d_ptr;
    if (at < object.dlpi_addr) at += object.dlpi_addr;
    if (each->d_tag == DT_SYMTAB) out.table = reinterpret_cast<const ElfW(Sym)*>(at);
    if (each->d_tag == DT_STRTAB) out.strings = reinterpret_cast<const char*>(at);
    const auto* hash = reinterpret_cast<const uint32_t*>(at);
    if (each->d_tag == DT_GNU_HASH) out.count = count_of(hash);
    if (each->d_tag == DT_HASH && out.count == 0) out.count = hash[1];
  }
  if (out.table == nullptr || out.strings == nullptr) out.count = 0;
  return out;
}

bool is_code(const ElfW(Sym) & symbol) {
  return symbol.st_shndx != SHN_UNDEF && symbol.st_size > 0 &&
         ELF64_ST_TYPE(symbol.st_info) != STT_TLS;
}

constexpr size_t bytes_for(size_t entry) { return align_up(Table::kAddresses * entry, 64 * kKiB); }

}  // namespace

struct Naming {
  static int visit(dl_phdr_info* object, size_t, void* data) {
    const auto& names = *static_cast<Names*>(data);
    const Symbols symbols = symbols_of(*object);
    Names::Entry* const end = names.entries_ + names.count_;
    for (size_t i = 0; i < symbols.count; i++) {
      const ElfW(Sym)& symbol = symbols.table[i];
      if (!is_code(symbol)) continue;
      const uintptr_t start = object->dlpi_addr + symbol.st_value;
      for (auto* entry = names.first_from(start); entry != end; entry++) {
        if (entry->call - start >= symbol.st_size) break;
        if (entry->start >= start) continue;
        entry->start = start;
        entry->name = symbols.strings + symbol.st_name;
      }
    }
    return 0;
  }
};

Names::Names()
    : entries_(static_cast<Entry*>(os::map_anywhere(bytes_for(sizeof(Entry)), 64 * kKiB))) {
  if (entries_ == nullptr) return;
  for (uint32_t number = 0; number < Table::kAddresses; number++) {
    const uintptr_t address = frame_address(number);
    if (address != 0) entries_[count_++] = {address - 1, 0, nullptr};
  }
  std::sort(entries_, entries_ + count_,
            [](const Entry& one, const Entry& other) { return one.call < other.call; });
  dl_iterate_phdr(Naming::visit, this);
}

Names::~Names() {
  if (entries_ != nullptr) os::unmap(entries_, bytes_for(sizeof(Entry)));
}

Names::Entry* Names::first_from(uintptr_t call) const {
  return std::lower_bound(entries_, entries_ + count_, call,
                          [](const Entry& entry, uintptr_t from) { return entry.call < from; });
}

const char* Names::of(uintptr_t call) const {
  const Entry* found = first_from(call);
  // Else another thread has just allocated from there for the first time.
  return found != entries_ + count_ && found->call == call ? found->name : nullptr;
}

}  // namespace near::profile
