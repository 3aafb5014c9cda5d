#include "profile/kept.h"

#include <unistd.h>

#include <cstring>

#include "base/bits.h"
#include "platform/os.h"
#include "platform/raw_io.h"
#include "profile/modules.h"
#include "sync/inside.h"

namespace near::profile {

// Lists the loaded files for `prepare`.
struct Listing {
  static int visit(dl_phdr_info* object, size_t, void* data) {
    LoadedFile found{UINTPTR_MAX, 0, object->dlpi_addr, nullptr, object->dlpi_name};
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
      const auto& segment = object->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
      found.start = min_of(found.start, start);
      found.end = max_of(found.end, start + segment.p_memsz);
    }
    static_cast<Kept*>(data)->add_module(found, object->dlpi_phdr, object->dlpi_phnum);
    return 0;
  }
};

bool Kept::prepare(int file, bool list) {
  prepared_ = static_cast<Layout*>(raw::map_shared(file, sizeof(Layout)));
  if (prepared_ == nullptr) return false;
  modules_ = known_count_ = last_known_ = name_bytes_ = sites_ = 0;
  KeptHeader& header = prepared_->header;
  header.site_bytes = sizeof(Site);
  header.layout_bytes = sizeof(Layout);
  header.pid = static_cast<uint32_t>(getpid());
  if (list) dl_iterate_phdr(Listing::visit, this);
  memcpy(header.magic, "nearkpt5", sizeof header.magic);
  return true;
}

bool Kept::close() {
  if (file_ == nullptr) return false;
  raw::unmap(file_, sizeof(Layout));
  file_ = nullptr;
  return true;
}

// Stores the name of a loaded file behind those of others. False if there is no room.
bool Kept::add_name(const char* name) {
  char* out = prepared_->names + name_bytes_;
  const size_t room = kNameBytes - name_bytes_;
  size_t length = 0;
  if (name != nullptr && name[0] != '\0') {
    length = strnlen(name, room);
    if (length < room) memcpy(out, name, length);
  } else {
    length = static_cast<size_t>(readlink("/proc/self/exe", out, room));  // -1 has no room
  }
  if (length == 0 || length >= room) return false;
  out[length] = '\0';
  name_bytes_ += static_cast<uint32_t>(length + 1);
  return true;
}

void Kept::add_module(const LoadedFile& found, const ElfW(Phdr) * segments, unsigned count) {
  if (known_count_ == kKnown || found.start >= found.end) return;
  known_[known_count_++] = {found.start, found.end};
  const auto name = static_cast<uint16_t>(name_bytes_);
  if (modules_ == kModules || !add_name(found.name)) {
    prepared_->header.dropped_modules++;
    return;
  }
  Module read{};
  read_build_id(segments, count, found.base, read);
  KeptModule& module = prepared_->modules[modules_];
  module = {found.start, found.end, found.base, name, {}};
  memcpy(module.build_id, read.build_id, sizeof module.build_id);
  prepared_->header.modules = ++modules_;
}

// Adds the file that has the address, if it was loaded after `prepare`. No lock of the dynamic
// linker: another thread may hold it and wait for the profiler's. So the list of segments is read
// behind the file's header, where it nearly always is; else the build id is not known.
void Kept::find_module(uintptr_t address) {
  const auto has = [&](uint32_t i) {
    return address - known_[i].start < known_[i].end - known_[i].start;
  };
  if (has(last_known_)) return;
  for (uint32_t i = 0; i < known_count_; i++) {
    if (!has(i)) continue;
    last_known_ = i;
    return;
  }
  LoadedFile found;
  if (!find_loaded_file(address, found)) return;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(found.start);
  const bool is_header = memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
  const size_t end = header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr));
  const bool has_segments = is_header && end <= os::page_size();
  add_module(found, reinterpret_cast<const ElfW(Phdr)*>(found.start + header->e_phoff),
             has_segments ? header->e_phnum : 0);
}

void Kept::update(Table& table, const Site& site) {
  if (table.folds() != folds_) {
    file_->header.changing = 1;
    order_for_handlers();  // the compiler writes it before what follows
    folds_ = table.folds();
    sites_ = 0;
  }
  for (; sites_ < table.site_count(); sites_++) {
    const Site& added = table.site(sites_);
    memcpy(&file_->sites[sites_], &added, sizeof added);
    for (uint32_t i = added.stack; i < added.stack + added.depth; i++) {
      const uint32_t number = table.address_number(i);
      file_->frames[i] = static_cast<uint16_t>(number);
      file_->addresses[number] = table.frame(i) - 1;  // the call, not where it returns to
      find_module(table.frame(i) - 1);
    }
  }
  memcpy(&file_->sites[table.number_of(site)], &site, sizeof site);
}

void Kept::update(const Summary& summary, uint64_t peak_number) {
  file_->header.summary = summary;
  file_->header.peak_number = peak_number;
  order_for_handlers();  // the compiler writes what is before first
  file_->header.changing = 0;
}

}  // namespace near::profile
