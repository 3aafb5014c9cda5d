// Points where a tracer can stop a thread or count it: USDT probes of the provider `nearmalloc`.
//
// A probe is one `nop`, and a note in the file that says where it is and in which registers its
// arguments are. perf, bpftrace, SystemTap and GDB write a breakpoint over the `nop` when a user
// asks; until then the probe costs the `nop` and loading its arguments. The note has the format of
// <sys/sdt.h>. The library does not include that header, because it is in a package of one
// processor's libraries, which a cross-build does not find, and because it defines
// `_.stapsdt.base` in each file. Tools move a probe by the distance of the symbol that its note
// names from the section of that name. An archive of ours would keep a symbol of its own, so a
// program with other probes that is linked statically would have two, a byte apart, and the tools
// would move one library's probes into the middle of an instruction. Here the symbol is only named;
// malloc/shim/probe_base.cc defines it for the shared libraries.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

// `name` is a string literal; the arguments are three numbers.
#define NEAR_PROBE(name, first, second, third)     \
  asm volatile(                                    \
      "990: nop\n"                                 \
      ".pushsection .note.stapsdt, \"\", %%note\n" \
      ".balign 4\n"                                \
      ".4byte 992f - 991f, 994f - 993f, 3\n"       \
      "991: .asciz \"stapsdt\"\n"                  \
      "992: .balign 4\n"                           \
      "993: .8byte 990b\n"                         \
      ".8byte _.stapsdt.base\n"                    \
      ".8byte 0\n"                                 \
      ".asciz \"nearmalloc\"\n"                    \
      ".asciz \"" name                             \
      "\"\n"                                       \
      ".asciz \"8@%0 8@%1 8@%2\"\n"                \
      "994: .balign 4\n"                           \
      ".popsection\n"                              \
      ".weak _.stapsdt.base\n"                     \
      ".hidden _.stapsdt.base\n"                   \
      :                                            \
      : "r"(uint64_t{first}), "r"(uint64_t{second}), "r"(uint64_t{third}))
