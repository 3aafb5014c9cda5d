#!/usr/bin/env python3
"""The built libraries need libc alone, export what the header says, and use little static TLS."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from preload import API_LIBRARY, LIBRARIES, LIBRARY, count, main

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "memory.md"
INCLUDE = Path(os.environ["NEAR_TEST_INCLUDE"])
SHIM = Path(__file__).resolve().parents[2] / "malloc" / "shim"
RECLAIM_LIBRARY = LIBRARIES / "libnearreclaim.so"
STATIC_TLS_BYTES = 64
LIBC = re.compile(r"libc\.so\.6|ld-linux[\w.-]*")
STANDARD = """
malloc calloc realloc reallocarray free free_sized free_aligned_sized aligned_alloc posix_memalign
memalign valloc pvalloc malloc_usable_size malloc_trim mallopt mallinfo mallinfo2 malloc_stats
malloc_info mallctl mallctlnametomib mallctlbymib malloc_stats_print mallocx rallocx xallocx sallocx
dallocx sdallocx nallocx pthread_create thrd_create setrlimit setrlimit64 prlimit prlimit64
__libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign __libc_valloc __libc_pvalloc
_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t
_ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm
_ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
_ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
_ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
dlopen
""".split()

STATIC_USE = """
#include <nearmalloc/nearmalloc.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  char* twin = near_malloc(9);
  char* standard = malloc(9);
  memset(twin, 1, 9);
  memset(standard, 1, 9);
  printf("%d\\n", near_owns(standard));
  near_free(twin);
  free(standard);
  return 0;
}
"""

# A reader stalls; says how many of 20,000 objects that were born later are not freed.
STALLED_READER = """
#include <atomic>
#include <cstdio>
#include <thread>
#include "nearmalloc/reclaim/domain.hpp"
using namespace near::reclaim;
struct Node : born {};
template <class Scheme>
void run() {
  domain<Scheme> home;
  std::atomic<Node*> source{new Node};
  auto guard = home.pin();
  guard.protect(0, source);
  std::thread([&] {
    for (int i = 0; i < 20000; i++) home.pin().retire(new Node);
  }).join();
  std::printf("%lu\\n", static_cast<unsigned long>(home.collect().unreclaimed));
  delete source.load();
}
int main() {
  run<ibr>();
  run<hyaline>();
}
"""

# As each file that includes <sys/sdt.h> defines it.
PROBE_BASE = r"""
__asm__(".pushsection .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat\n"
        ".weak _.stapsdt.base\n .hidden _.stapsdt.base\n"
        "_.stapsdt.base: .space 1\n .popsection\n");
"""


def tool(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def promised() -> set[str]:
    """The near_* functions and variables that the header declares."""
    header = (INCLUDE / "nearmalloc" / "nearmalloc.h").read_text(encoding="utf-8")
    functions = re.findall(r"^NEAR_API [^;(]*?\b(near_\w+)\(", header, re.MULTILINE)
    variables = re.findall(r"^extern NEAR_API [^;(]*?\b(near_\w+);", header, re.MULTILINE)
    return {*functions, *variables}


def exported(library: Path, kind: str = "") -> set[str]:
    names = set()
    for line in tool("nm", "-D", "--defined-only", library).splitlines():
        _, letter, name = line.split()[-3:]
        if letter != "A" and (not kind or letter in kind):
            names.add(name.split("@")[0])
    return names


def probes(file: Path) -> dict[str, bytes]:
    """The code at each probe `provider:name` of a file, where tools look for it."""
    notes = re.findall(r"Provider: (\w+)\s+Name: (\w+)\s+Location: (\w+), Base: (\w+)",
                       tool("readelf", "-nW", file))
    sections = re.search(r"\.stapsdt\.base\s+PROGBITS\s+(\w+)", tool("readelf", "-SW", file))
    loads = [[int(word, 16) for word in line.split()[1:5]]
             for line in tool("readelf", "-lW", file).splitlines() if "LOAD" in line]
    content = file.read_bytes()
    found = {}
    for provider, name, location, base in notes:
        address = int(location, 16)
        if sections:
            address += int(sections[1], 16) - int(base, 16)
        place = next(offset + address - start for offset, start, _, size in loads
                     if start <= address < start + size)
        found[f"{provider}:{name}"] = content[place : place + 4]
    return found


class Link(unittest.TestCase):
    libraries = (LIBRARY, API_LIBRARY)  # the allocators
    all_libraries = (*libraries, RECLAIM_LIBRARY)

    def test_libc_is_all_they_need(self) -> None:
        for library in self.all_libraries:
            dynamic = tool("readelf", "-dW", library)
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
            self.assertTrue(needed)
            for name in needed:
                self.assertRegex(name, LIBC)
                count()

    def test_sonames_and_flags(self) -> None:
        for library in self.all_libraries:
            dynamic = tool("readelf", "-dW", library)
            self.assertIn(f"[{library.stem}.so.0]", dynamic)
            self.assertRegex(dynamic, r"FLAGS_1.*NODELETE")
            self.assertNotIn("TEXTREL", dynamic)
            count()

    def test_exports(self) -> None:
        self.assertGreater(len(promised()), 20)
        self.assertEqual(exported(API_LIBRARY), promised())
        self.assertLessEqual(promised() | set(STANDARD), exported(LIBRARY))
        self.assertEqual({name for name in exported(LIBRARY) - promised() - set(STANDARD)
                          if not re.fullmatch(r"_*(libc_|posix_)?(cfree|mem\w+)", name)}, set())
        count(len(promised()) + len(STANDARD))

    def test_operators_call_each_other_by_their_public_names(self) -> None:
        """No other call inside the library can be diverted."""
        calls = re.findall(r"_(?:GLOB_DAT|JUMP_SLOT?|JUMP_SLO)\s+\w+ (\w+) \+ 0",
                           tool("readelf", "-rW", LIBRARY))
        own = set(calls) & exported(LIBRARY)
        self.assertLessEqual({"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvSt11align_val_t"}, own)
        self.assertEqual({name for name in own if not re.match(r"_Z(nw|na|dl|da)", name)}, set())
        count(len(own))

    def test_no_indirect_functions(self) -> None:
        for library in self.libraries:
            self.assertEqual(exported(library, "iI"), set())
            self.assertNotIn("IRELATIV", tool("readelf", "-rW", library))
            count()

    def test_static_tls_is_small_and_initial_exec(self) -> None:
        for library in self.libraries:
            segments = re.findall(r"^\s*TLS\s+(?:0x\w+\s+){4}(0x\w+)",
                                  tool("readelf", "-lW", library), re.MULTILINE)
            self.assertLessEqual(sum(int(size, 16) for size in segments), STATIC_TLS_BYTES)
            self.assertNotRegex(tool("readelf", "-rW", library), r"DTPMOD|TLSDESC")
            count()

    def test_nothing_undefined_but_libcs(self) -> None:
        """In particular, they need nothing of the C++ runtime or of libatomic."""
        for library in self.libraries:
            for line in tool("nm", "-D", "--undefined-only", library).splitlines():
                letter, name = line.split()[-2:]
                self.assertTrue("@GLIBC" in name or letter in "wv", line)
                count()

    def test_only_listed_names_of_libc_are_left_to_the_loaders_search(self) -> None:
        """All others are bound to the C library itself, and none of those is listed in vain."""
        text = (SHIM / "interposable.list").read_text(encoding="utf-8")
        listed = {line for line in text.splitlines() if line and not line.startswith("#")}
        self.assertGreater(len(listed), 5)
        for library in self.libraries:
            names = tool("nm", "-D", "--undefined-only", library).split()
            self.assertEqual({name for name in names if "@" in name
                              and name.split("@")[0] not in listed}, set())
            count(len(names))
        bound = set(re.findall(r"\bX\((\w+)\)", (SHIM / "libc_names.h").read_text("utf-8")))
        # The start files call these; on aarch64 libgcc calls __getauxval.
        called = {"__cxa_atexit", "__cxa_finalize", "__getauxval", "__register_atfork"}
        for archive in LIBRARIES.glob("libnearmalloc*.a"):
            called |= set(tool("nm", "--undefined-only", archive).split())
        self.assertEqual(bound - {"X"} - called, set())
        count(len(bound))

    def test_a_c_program_links_statically_to_each(self) -> None:
        cases = {"libnearmalloc.a": 1, "libnearmalloc-api.a": 0}
        for library, owned in cases.items():
            for flags in ([], ["-static"], ["-no-pie"]):
                with (self.subTest(library=library, flags=flags),
                      tempfile.TemporaryDirectory() as folder):
                    path = Path(folder) / "use.c"
                    path.write_text(STATIC_USE, encoding="utf-8")
                    binary = Path(folder) / "use"
                    tool("cc", "-fno-builtin", path, f"-I{INCLUDE}", "-o", binary, *flags,
                         "-Wl,--fatal-warnings", LIBRARIES / library)
                    self.assertEqual(tool(binary), f"{owned}\n")
                    count()

    def test_an_executable_shares_the_variables_of_the_reclamation_library(self) -> None:
        """Without -fPIC it has a copy of them, which the library has to use as well."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "stalled.cc"), Path(folder, "stalled")
            source.write_text(STALLED_READER, encoding="utf-8")
            tool("c++", "-std=c++20", "-O1", "-fPIE", "-pie", source, "-o", program, "-I", INCLUDE,
                 RECLAIM_LIBRARY, f"-Wl,-rpath,{LIBRARIES}")
            self.assertIn("R_X86_64_COPY" if os.uname().machine == "x86_64" else "",
                          tool("readelf", "--relocs", "--wide", program))
            for left in map(int, tool(program).split()):
                self.assertLess(left, 5000)
                count()

    def test_each_probe_is_documented(self) -> None:
        """Also in programs that are linked statically, with and without probes of others."""
        documented = set(re.findall(r"^\| `(nearmalloc:\w+)` \|",
                                    DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE))
        with tempfile.TemporaryDirectory() as folder:
            programs = []
            for name, others in (("alone", ""), ("among_others", PROBE_BASE)):
                programs.append(Path(folder) / name)
                path = programs[-1].with_suffix(".c")
                path.write_text(STATIC_USE + others, encoding="utf-8")
                tool("cc", "-fno-builtin", path, f"-I{INCLUDE}", "-o", programs[-1], "-static",
                     LIBRARIES / "libnearmalloc.a")
            for file in (*self.libraries, *programs):
                found = probes(file)
                self.assertEqual({name for name in found if name.startswith("nearmalloc:")},
                                 documented, file)
                for name, code in found.items():
                    nop = code[:1] == b"\x90" or code == b"\x1f\x20\x03\xd5"
                    self.assertTrue(nop, f"{file}: {name} is at {code.hex()}, which is no nop")
                    count()

    @unittest.skipUnless(shutil.which("bpftrace") and os.getuid() == 0, "needs bpftrace and root")
    def test_bpftrace_lists_the_probes(self) -> None:
        names = re.findall(r":(nearmalloc:\w+)$", tool("bpftrace", "-l", f"usdt:{LIBRARY}:*"),
                           re.MULTILINE)
        self.assertEqual(set(names), set(probes(LIBRARY)))
        count(len(names))

    def test_the_linker_finds_them_by_name(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "use.c"
            path.write_text("#include <nearmalloc/nearmalloc.h>\n"
                            "int main(void) { puts(near_version()); return 0; }\n",
                            encoding="utf-8")
            for name in ("nearmalloc", "nearmalloc-api"):
                tool("cc", path, f"-I{INCLUDE}", f"-L{LIBRARIES}", f"-l{name}",
                     f"-Wl,-rpath,{LIBRARIES}", "-o", Path(folder) / name)
                self.assertRegex(tool(Path(folder) / name), r"^\d+\.\d+\.\d+\n$")
                count()


if __name__ == "__main__":
    main()
