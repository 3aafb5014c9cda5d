#include "profile/write.h"

#include <cstring>

#include "profile/modules.h"
#include "profile/names.h"
#include "profile/profiler.h"

namespace near::profile {
namespace {

unsigned long blocks_of(const Weight& weight) {
  return static_cast<unsigned long>(weight.whole_blocks());
}

unsigned long bytes_of(const Weight& weight) { return static_cast<unsigned long>(weight.bytes); }

// Writes a name without the characters that separate frames and numbers.
void put_name(Sink& out, const char* name) {
  for (; *name != '\0'; name++) {
    const char letter = *name == ';' || *name == ' ' ? '_' : *name;
    out.write(&letter, 1);
  }
}

// The name that the dynamic linker knows for the code, else its place in its file.
void put_frame(Sink& out, const Names& names, const Modules& modules, uintptr_t address) {
  if (const char* name = names.of(address)) return put_name(out, name);
  const size_t index = modules.find(address);
  if (index == modules.count()) return out.put("0x%lx", static_cast<unsigned long>(address));
  const Module& module = modules[index];
  const char* slash = strrchr(module.name, '/');
  put_name(out, slash != nullptr ? slash + 1 : module.name);
  out.put("+0x%lx", static_cast<unsigned long>(address - module.start + module.offset));
}

// gperftools' text, which jeprof and pprof read. The type "heapprofile" says that the numbers are
// sums already, which the tools need not scale.
void put_jeprof_line(Sink& out, const Weight& live, const Weight& allocated) {
  out.put("%lu: %lu [%lu: %lu] @", blocks_of(live), bytes_of(live), blocks_of(allocated),
          bytes_of(allocated));
}

}  // namespace

void write_jeprof(Sink& out) {
  Weight live;
  Weight allocated;
  SiteCopy copy;
  for (uint32_t i = 0; copy_site(i, copy); i++) {
    live += copy.site.live;
    allocated += copy.site.allocated;
  }
  out.text("heap profile: ");
  put_jeprof_line(out, live, allocated);
  out.text(" heapprofile\n");
  for (uint32_t i = 0; copy_site(i, copy); i++) {
    if (copy.site.samples == 0) continue;
    put_jeprof_line(out, copy.site.live, copy.site.allocated);
    for (unsigned frame = 0; frame < copy.site.depth; frame++) {
      out.put(" 0x%lx", static_cast<unsigned long>(copy.frames[frame]));
    }
    out.text("\n");
  }
  out.text("\nMAPPED_LIBRARIES:\n");
  const Modules modules;
  for (size_t i = 0; i < modules.count(); i++) {
    const Module& module = modules[i];
    out.put("%lx-%lx r-xp %08lx 00:00 0 ", static_cast<unsigned long>(module.start),
            static_cast<unsigned long>(module.end), static_cast<unsigned long>(module.offset));
    out.text(module.name);
    out.text("\n");
  }
}

void write_collapsed(Sink& out, bool live) {
  const Modules modules;
  const Names names;
  SiteCopy copy;
  for (uint32_t i = 0; copy_site(i, copy); i++) {
    const Weight& weight = live ? copy.site.live : copy.site.allocated;
    if (weight.bytes == 0) continue;
    if (copy.site.depth == 0) out.text("[unknown]");
    for (unsigned frame = copy.site.depth; frame > 0; frame--) {
      put_frame(out, names, modules, copy.frames[frame - 1] - 1);
      if (frame > 1) out.text(";");
    }
    out.put(" %lu\n", bytes_of(weight));
  }
}

bool write_profile(Sink& out, Format format) {
  if (!summary().any) return false;
  const HeldSites held;
  switch (format) {
    case Format::pprof:
      write_pprof(out);
      break;
    case Format::json:
      write_json(out);
      break;
    case Format::jeprof:
      write_jeprof(out);
      break;
    case Format::collapsed:
    case Format::collapsed_live:
      write_collapsed(out, format == Format::collapsed_live);
      break;
  }
  return true;
}

}  // namespace near::profile
