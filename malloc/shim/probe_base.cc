// The symbol from which tools measure where a library's probes are (platform/probe.h). Only the
// shared libraries contain it.

asm(".pushsection .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat\n"
    ".weak _.stapsdt.base\n"
    ".hidden _.stapsdt.base\n"
    "_.stapsdt.base: .space 1\n"
    ".size _.stapsdt.base, 1\n"
    ".popsection\n");
