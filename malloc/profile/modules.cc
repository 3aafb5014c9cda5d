#include "profile/modules.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/bits.h"
#include "platform/os.h"

namespace near::profile {
namespace {

constexpr size_t kBytes = align_up(Modules::kMost * sizeof(Module), 64 * kKiB);

// Reads the note of a build id in a segment of notes.
void find_build_id(const char* note, size_t bytes, Module& out) {
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    memcpy(&header, note, sizeof header);
    const size_t name = align_up(header.n_namesz, 4);
    const size_t whole = sizeof header + name + align_up(header.n_descsz, 4);
    if (whole > bytes) return;
    const char* words = note + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && memcmp(words, "GNU", 4) == 0) {
      out.build_id_bytes = static_cast<uint8_t>(min_of(header.n_descsz, sizeof out.build_id));
      memcpy(out.build_id, words + name, out.build_id_bytes);
      return;
    }
    note += whole;
    bytes -= whole;
  }
}

}  // namespace

void read_build_id(const ElfW(Phdr) * segments, unsigned count, uintptr_t base, Module& out) {
  for (unsigned i = 0; i < count && out.build_id_bytes == 0; i++) {
    if (segments[i].p_type != PT_NOTE) continue;
    find_build_id(reinterpret_cast<const char*>(base + segments[i].p_vaddr), segments[i].p_memsz,
                  out);
  }
}

struct Collect {
  static int visit(struct dl_phdr_info* object, size_t, void* data) {
    auto& all = *static_cast<Modules*>(data);
    Module common{};
    read_build_id(object->dlpi_phdr, object->dlpi_phnum, object->dlpi_addr, common);
    const bool has_name = object->dlpi_name != nullptr && object->dlpi_name[0] != '\0';
    common.name = has_name ? object->dlpi_name : all.program_;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
      const auto& segment = object->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      if (all.count_ == all.most_) {
        all.dropped_++;
        continue;
      }
      Module& module = all.modules_[all.count_++];
      module = common;
      const uintptr_t page = os::page_size() - 1;
      module.start = (object->dlpi_addr + segment.p_vaddr) & ~page;
      module.end = align_up(object->dlpi_addr + segment.p_vaddr + segment.p_memsz, page + 1);
      module.offset = segment.p_offset & ~page;
    }
    return 0;
  }
};

Modules::Modules(size_t most)
    : modules_(static_cast<Module*>(os::map_anywhere(kBytes, 64 * kKiB))),
      most_(modules_ != nullptr ? min_of(most, kMost) : 0) {
  const ssize_t length = readlink("/proc/self/exe", program_, sizeof program_ - 1);
  program_[length > 0 ? length : 0] = '\0';
  dl_iterate_phdr(Collect::visit, this);
}

Modules::~Modules() {
  if (modules_ != nullptr) os::unmap(modules_, kBytes);
}

size_t Modules::find(uintptr_t address) const {
  size_t index = 0;
  while (index < count_ &&
         address - modules_[index].start >= modules_[index].end - modules_[index].start) {
    index++;
  }
  return index;
}

void Modules::print_build_id(const Module& module, char* out) {
  out[0] = '\0';
  for (unsigned i = 0; i < module.build_id_bytes; i++) {
    snprintf(out + size_t{2} * i, 3, "%02x", unsigned{module.build_id[i]});
  }
}

}  // namespace near::profile
