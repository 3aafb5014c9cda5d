#!/usr/bin/env python3
"""Address space in steps: limits set inside the process, locked memory, emulators.

Invariant: what the allocator does not use is the program's, under every limit; what it refuses
glibc refuses too.
"""

import os
import resource
from pathlib import Path

from preload import LIBRARY, PROGRAMS, PreloadTest, count, environment, main, program, run

MIB = 1 << 20
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def memory_and_swap() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines
               if line.startswith(("MemTotal:", "SwapTotal:")))


class AddressSpace(PreloadTest):
    def limited(self, *words: str, **options) -> bytes:
        return self.run_preloaded([PROGRAMS / "limited", *words], **options).out

    def test_limits_set_inside_the_process(self) -> None:
        for case in ("address_space", "data"):
            with self.subTest(case=case):
                self.limited(case)

    def test_memory_can_be_locked(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can become a user with a limit of locked memory")
        self.limited("locked")

    def test_locked_memory_is_given_back(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("locking 100 MiB needs root")
        self.limited("locked_trim")

    def test_the_largest_block_is_nearly_that_of_glibc(self) -> None:
        for limit in (100_000 * 1024, 300_000 * 1024, 1000 * MIB):
            with self.subTest(limit=limit):
                limits = {resource.RLIMIT_AS: limit}
                command = [PROGRAMS / "limited", "largest"]
                expected = int(run(command, preload=False, limits=limits).out)
                self.assertGreaterEqual(int(self.limited("largest", limits=limits)),
                                        expected * 9 // 10)

    def test_more_than_memory_and_swap_is_refused(self) -> None:
        if OVERCOMMIT.read_text(encoding="utf-8").strip() != "0":
            self.skipTest("the machine promises memory in another way")
        for factor in (2, 100, 10_000):
            with self.subTest(factor=factor):
                size = str(factor * memory_and_swap())
                self.assertEqual(self.limited("size", size), b"refused\n")

    def test_advice_that_does_nothing_leaves_calloc_zero(self) -> None:
        if self.limited("advice") == b"refused\n":
            self.skipTest("seccomp filters are refused here")

    def test_a_sandbox_that_allows_the_calls_of_malloc(self) -> None:
        if self.limited("sandbox") == b"refused\n":
            self.skipTest("seccomp filters are refused here")

    def test_alignments_beyond_the_machine_are_refused_at_once(self) -> None:
        self.assertEqual(self.limited("alignments"), b"refused\n")

    def test_an_emulator_has_little_to_emulate(self) -> None:
        emulator = program("qemu-x86_64")
        if os.uname().machine != "x86_64":
            self.skipTest("the emulator is of another processor")
        variables = environment(preload=False)
        preload = f"LD_PRELOAD={LIBRARY},NEARMALLOC_STATS=1"
        result = run([emulator, "-E", preload, "/bin/true"], extra=variables, preload=False)
        self.assert_good(result)
        self.assert_served(result)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        self.assertLess(used, 250 * MIB)
        count()


if __name__ == "__main__":
    main()
