#!/usr/bin/env python3
"""Programs for jemalloc get the answers of docs/jemalloc.md."""

import errno
import re
import subprocess
import tempfile
from pathlib import Path

from preload import API_LIBRARY, PROGRAMS, PreloadTest, count, main, program, run

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "jemalloc.md"
TABLE = ROOT / "malloc" / "shim" / "jemalloc_table.cc"
BYTES = {"none": 0, "bool": 1, "4 bytes": 4, "8 bytes": 8, "text": 8}
# Prints the results of a read and of a write of 99 bytes for each name.
PROBE = """
import ctypes, sys
mallctl = ctypes.CDLL(None).mallctl
for name in sys.argv[1:]:
    room = ctypes.create_string_buffer(99)
    length = ctypes.c_size_t(99)
    read = mallctl(name.encode(), room, ctypes.byref(length), None, ctypes.c_size_t(0))
    write = mallctl(name.encode(), None, None, room, ctypes.c_size_t(99))
    print(name, read, length.value, write)
"""
EXPECTED = b"""functions: 11
folly: thread.allocatedp No such file or directory
rocksdb: arena 1, hooks No such file or directory
arrow: done
redis: done
"""
RUBY = """
require 'fiddle'
control = Fiddle::Function.new(Fiddle::Handle::DEFAULT['mallctl'],
  [Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP,
   Fiddle::TYPE_SIZE_T], Fiddle::TYPE_INT)
value = Fiddle::Pointer.malloc(8, Fiddle::RUBY_FREE)
length = Fiddle::Pointer.malloc(8, Fiddle::RUBY_FREE)
length[0, 8] = [8].pack('Q')
kept = Array.new(100_000) { |i| 'v' * 100 + i.to_s }
raise 'epoch' unless control.call('epoch', value, length, value, 8) == 0
raise 'stats' unless control.call('stats.allocated', value, length, nil, 0) == 0
puts value[0, 8].unpack1('Q') > 10_000_000
"""


def documented() -> dict[str, tuple[int, str]]:
    """The size of the value and the access of each name."""
    found: dict[str, tuple[int, str]] = {}
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[1] in BYTES:
            for name in re.findall(r"`([^`]+)`", cells[0]):
                assert name not in found, name
                found[name] = BYTES[cells[1]], cells[2]
    return found


class Jemalloc(PreloadTest):
    def test_the_document_has_the_rows_of_the_table(self) -> None:
        rows = re.findall(r'^    \{"([\w.<>]+)"', TABLE.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(rows), 100)
        self.assertEqual(sorted(documented()), sorted(rows))
        count(len(rows))

    def test_each_name_has_the_documented_type_and_access(self) -> None:
        names = {name.replace("<i>", "0").replace("<j>", "1"): row
                 for name, row in documented().items()}
        result = self.run_preloaded([program("python3"), "-c", PROBE, *names])
        lines = result.out.decode().splitlines()
        self.assertEqual(len(lines), len(names))
        for line in lines:
            name, read, length, write = line.split()
            size, access = names[name]
            reads, writes = "read" in access, "write" in access
            self.assertEqual(int(read), errno.EINVAL if reads else errno.EPERM, line)
            self.assertEqual(int(write), errno.EINVAL if writes else errno.EPERM, line)
            self.assertIn(int(length), (size, 0) if reads else (99,), line)
            count()

    def test_programs_find_the_functions(self) -> None:
        self.assertEqual(self.run_preloaded([PROGRAMS / "jemalloc_user"]).out, EXPECTED)

    def test_without_malloc_there_are_no_functions(self) -> None:
        for extra in ({}, {"LD_PRELOAD": str(API_LIBRARY)}):
            result = run([PROGRAMS / "jemalloc_user"], preload=False, extra=extra)
            self.assertEqual(result.out, b"functions: 0\n", str(result))
            count()

    def test_a_static_program_has_the_functions(self) -> None:
        self.assertEqual(run([PROGRAMS / "jemalloc_static"], preload=False).out, EXPECTED)
        count()

    def test_a_program_with_its_own_malloc_gets_no_numbers(self) -> None:
        result = run([PROGRAMS / "jemalloc_other"], summary=False)
        self.assert_good(result)
        self.assertEqual(result.out, b"No such file or directory\n" * 2, str(result))
        self.assertEqual(result.err, b"")
        count()

    def test_ruby(self) -> None:
        self.assertEqual(self.run_preloaded([program("ruby"), "-e", RUBY]).out, b"true\n")

    def test_a_program_of_jemalloc_is_served(self) -> None:
        """A program with -ljemalloc allocates here when nearmalloc is preloaded."""
        if not Path("/usr/include/jemalloc/jemalloc.h").exists():
            self.skipTest("the header of jemalloc is not installed")
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "use.c")
            source.write_text("#include <jemalloc/jemalloc.h>\n#include <stdio.h>\n"
                              "int main(void) {\n  const char* version;\n"
                              "  size_t length = sizeof version;\n"
                              "  if (mallctl(\"version\", &version, &length, NULL, 0)) return 1;\n"
                              "  void* block = mallocx(100, MALLOCX_ALIGN(64) | MALLOCX_ZERO);\n"
                              "  printf(\"%s %d\\n\", version, block != NULL);\n"
                              "  free(rallocx(block, 5000, 0));\n  return 0;\n}\n")
            binary = Path(folder, "use")
            subprocess.run(["cc", source, "-o", binary, "-ljemalloc"], check=True)
            for preload, pattern in ((False, rb"5\.3\.0-0-g\w+ 1\n"),
                                     (True, rb"5\.3\.0-nearmalloc-[\d.]+ 1\n")):
                result = run([binary], preload=preload)
                self.assert_good(result)
                self.assertRegex(result.out, pattern)
                count()


if __name__ == "__main__":
    main()
