#!/usr/bin/env python3
"""Limits and settings of the machine: address space, data, strict overcommit, huge pages.

Invariant: what a test changes for the whole machine it restores, also when it is told to end.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

from preload import PROGRAMS, PreloadTest, main, program, run

MIB = 1 << 20
PR_SET_THP_DISABLE = 41
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PYTHON = "d = {i: str(i) * 9 for i in range(50000)}; print(len(d), sum(map(len, d.values())))"


@contextlib.contextmanager
def setting(path: Path, value: str) -> Iterator[None]:
    """`value` in a file of the kernel, and afterwards what was there; skips where it is refused."""
    before = path.read_text(encoding="utf-8")
    chosen = before.split("[")[1].split("]")[0] if "[" in before else before.strip()

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGTERM, end)
    try:
        path.write_text(value, encoding="utf-8")
    except OSError as error:
        signal.signal(signal.SIGTERM, old)
        raise unittest.SkipTest(f"{path} cannot be set here: {error.strerror}") from error
    try:
        yield
    finally:
        path.write_text(chosen, encoding="utf-8")
        signal.signal(signal.SIGTERM, old)


def memory_info(field: str) -> int:
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


class Limits(PreloadTest):
    def exhaust(self, size: int, limit: int, *mode: str, limits: dict[int, int]) -> int:
        """The bytes that exhaust.c got; it must get as much again after freeing all."""
        command = [PROGRAMS / "exhaust", str(size), str(limit), *mode]
        result = self.run_preloaded(command, limits=limits)
        first, second = (int(word) for word in result.out.split() if word.isdigit())
        self.assertGreaterEqual(second, first * 9 // 10)
        return first

    def test_address_space_limited_from_start(self) -> None:
        """At least an eighth of the limit can be allocated; then ENOMEM, and nothing is lost."""
        for limit in (64 * MIB, 128 * MIB, 256 * MIB, 1024 * MIB, 4096 * MIB):
            for size in (32, 200, 4096, 60_000, 3 * MIB):
                if limit // size > (2_100_000 if limit < 256 * MIB else 300_000):
                    continue
                with self.subTest(limit=limit // MIB, size=size):
                    got = self.exhaust(size, limit, limits={resource.RLIMIT_AS: limit})
                    self.assertGreaterEqual(got, limit // 8)
                    self.assertLess(got, limit)

    def test_address_space_limited_after_start(self) -> None:
        for limit in (256 * MIB, 1024 * MIB):
            for size in (200, 60_000, 3 * MIB):
                with self.subTest(limit=limit // MIB, size=size):
                    got = self.exhaust(size, limit, "lower", limits={})
                    self.assertGreaterEqual(got, limit // 8)

    def test_data_limited_from_start(self) -> None:
        limit = 256 * MIB
        for size in (200, 60_000, 3 * MIB):
            with self.subTest(size=size):
                got = self.exhaust(size, limit, limits={resource.RLIMIT_DATA: limit})
                self.assertGreaterEqual(got, limit // 8)
                self.assertLess(got, limit)

    def test_programs_under_a_small_address_space(self) -> None:
        limits = {resource.RLIMIT_AS: 512 * MIB}
        self.same_three_times([sys.executable, "-c", PYTHON], limits=limits)
        bash = [program("bash"), "-c", "for i in 1 2 3; do ls / | wc -l; done"]
        self.same_three_times(bash, limits=limits)
        self.same_three_times([PROGRAMS / "workload"], limits=limits)

    def run_everything(self, **options) -> None:
        """The workload that every setting of the machine must allow."""
        self.same_once([PROGRAMS / "workload"], **options)
        self.same_once([PROGRAMS / "fork_exec"], **options)
        self.same_once([sys.executable, "-c", PYTHON], **options)

    def test_strict_overcommit(self) -> None:
        spare = memory_info("CommitLimit") - memory_info("Committed_AS")
        if os.geteuid() != 0 or spare < 4096 * MIB:
            self.skipTest("strict overcommit needs root and 4 GiB that nobody has committed")
        with setting(OVERCOMMIT, "2"):
            self.run_everything()
            result = self.run_preloaded([PROGRAMS / "exhaust", str(MIB), str(512 * MIB)])
            self.assertEqual(result.out, b"%d then %d bytes\n" % (512 * MIB, 512 * MIB))

    def test_memory_promised_without_counting(self) -> None:
        """Overcommit 1 grants what is larger than memory and swap, as glibc's malloc does."""
        with setting(OVERCOMMIT, "1"):
            size = str(4 * (memory_info("MemTotal") + memory_info("SwapTotal")))
            result = self.run_preloaded([PROGRAMS / "limited", "size", size])
            self.assertEqual(result.out, b"granted\n")

    def test_huge_pages_always_madvise_never(self) -> None:
        if not os.access(HUGE_PAGES, os.W_OK):
            self.skipTest(f"{HUGE_PAGES} cannot be written here")
        for mode in ("always", "madvise", "never"):
            with self.subTest(mode=mode), setting(HUGE_PAGES, mode):
                self.run_everything()

    def test_huge_pages_disabled_for_the_process(self) -> None:
        libc = ctypes.CDLL(None)

        def disable() -> None:
            if libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
                os._exit(98)

        if run(["/bin/true"], preload=False, before=disable).status == 98:
            self.skipTest("prctl(PR_SET_THP_DISABLE) is refused here")
        self.run_everything(before=disable)


if __name__ == "__main__":
    main()
