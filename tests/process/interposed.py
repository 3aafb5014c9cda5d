#!/usr/bin/env python3
"""Blocks of several allocators in one process, and functions of the C library that the program
replaces: RTLD_DEEPBIND, the near_* names alone, PHP, every name of libc."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from preload import (
    API_LIBRARY,
    LIBRARIES,
    LIBRARY,
    PROGRAMS,
    PreloadTest,
    count,
    main,
    program,
    run,
)

DEEPBIND = PROGRAMS / "deepbind"
PLUGIN = PROGRAMS / "libdeepbind_plugin.so"
KEEP = {"NEARMALLOC_DEEPBIND": "keep"}
PHP = """<?php
$lines = array_map(fn($i) => str_repeat(strrev("line $i"), $i % 50), range(1, 3000));
$text = json_encode($lines);
preg_match_all('/enil/', $text, $found);
usort($lines, fn($a, $b) => strlen($a) <=> strlen($b) ?: strcmp($a, $b));
echo strlen($text), ' ', count($found[0]), ' ', md5(implode(',', $lines)), "\\n";
echo count(get_loaded_extensions()) > 0 ? "extensions\\n" : "";
"""


# What programs/without_libc.c and the start files call, and malloc for the C library itself.
LEFT = """__libc_start_main write _exit fork waitpid thrd_create thrd_join
malloc free calloc realloc aligned_alloc memalign""".split()
WITHOUT_LIBC = Path(__file__).resolve().parent / "programs" / "without_libc.c"
# `name` ends the program, and says that it was called.
REPLACED = """
void replaced_{number}(void) __asm__("{name}") __attribute__((used, visibility("default")));
void replaced_{number}(void) {{ end("{name}\\n", {length}); }}
"""


def dynamic_names(file: Path | str, *which: str) -> dict[str, str]:
    """The letters that nm prints for the dynamic symbols of a file."""
    lines = subprocess.run(["nm", "-D", *which, file], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0]: line.split()[-2] for line in lines
            if not line.endswith("GLIBC_PRIVATE")}  # libc and its loader call each other by these


def replaced_names(library: Path) -> list[str]:
    """The functions of the C library but those that the library exports or the program calls."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    libc = next(line.split()[-1] for line in maps.splitlines() if line.endswith("/libc.so.6"))
    functions = {name for name, letter in dynamic_names(libc, "--defined-only").items()
                 if letter in "TWi"}
    return sorted(functions - set(LEFT) - set(dynamic_names(library, "--defined-only")))


class WithoutLibc(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_without_libc(self, library: Path, *flags: str | Path) -> None:
        """The library finds no replaced function: it would end the program."""
        names = replaced_names(library)
        self.assertGreater(len(names), 1000)
        self.assertTrue({"mmap", "syscall", "pthread_join", "memcpy", "sysinfo"} <= set(names))
        source, binary = self.folder / "replaced.c", self.folder / "without_libc"
        text = "#include <unistd.h>\nstatic void end(const char* name, size_t length) {\n" \
               "  _exit(write(2, name, length) < 0 ? 70 : 71);\n}\n"
        for number, name in enumerate(names):
            text += REPLACED.format(number=number, name=name, length=len(name) + 1)
        source.write_text(text, encoding="utf-8")
        # A position-independent program would call its own __cxa_finalize.
        subprocess.run(["cc", "-O0", "-w", "-fno-builtin", "-fno-stack-protector", "-no-pie",
                        "-rdynamic", WITHOUT_LIBC, source, *flags, "-o", binary], check=True)
        replaced = set(dynamic_names(binary, "--defined-only"))
        self.assertLessEqual(set(names), replaced)
        result = run([binary], preload=library == LIBRARY)
        self.assertEqual((result.status, result.out), (0, b"ok\n"), str(result))
        if library == LIBRARY:
            self.assert_served(result)
        count(len(names))

    def test_preloaded(self) -> None:
        self.run_without_libc(LIBRARY)

    def test_near_names(self) -> None:
        self.run_without_libc(API_LIBRARY, "-DOWN_NAMES", f"-I{os.environ['NEAR_TEST_INCLUDE']}",
                              API_LIBRARY, f"-Wl,-rpath,{LIBRARIES}")


class Interposed(PreloadTest):
    def test_a_plugin_opened_with_deepbind_has_the_programs_malloc(self) -> None:
        self.same_three_times([DEEPBIND, PLUGIN, "exchange"])

    def test_dlopen_searches_the_runpath_of_its_caller(self) -> None:
        self.same_three_times([DEEPBIND, PLUGIN, PROGRAMS / "libopener.so"])
        self.same_three_times([DEEPBIND, PLUGIN, PROGRAMS / "libopener.so"], extra=KEEP)

    def test_where_the_flag_is_kept_foreign_blocks_go_home(self) -> None:
        self.same_three_times([DEEPBIND, PLUGIN, "take"], extra=KEEP)

    def test_a_block_above_the_stack_is_no_part_of_it(self) -> None:
        for where in ("thread", "coroutine"):
            with self.subTest(where):
                result = self.run_preloaded([DEEPBIND, PLUGIN, where], extra=KEEP)
                if result.out.startswith(b"skipped"):
                    self.skipTest(result.out.decode().strip())
                self.assertEqual(result.out, b"freed\n")

    def test_the_near_names_alone_know_the_programs_malloc(self) -> None:
        result = run([PROGRAMS / "api_user"], preload=False)
        self.assert_good(result)
        self.assertEqual(result.out, b"all went home\n")
        count()

    def test_php(self) -> None:
        """It opens its extensions with RTLD_DEEPBIND."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script.php"
            script.write_text(PHP, encoding="utf-8")
            for own_malloc in ("1", "0"):
                with self.subTest(USE_ZEND_ALLOC=own_malloc):
                    self.same_three_times([program("php"), script],
                                          extra={"USE_ZEND_ALLOC": own_malloc})


if __name__ == "__main__":
    main()
