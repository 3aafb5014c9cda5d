#!/usr/bin/env python3
"""Large arrays that grow by realloc: bytes and memory.

Invariant: a block that grows keeps all bytes, whether pages or bytes move; and growth in turns
takes little more memory than the arrays have.
"""

from preload import PROGRAMS, PreloadTest, count, main

MANY_CPUS = "nodes=1;cpus=0-31;distance=10"


class Growth(PreloadTest):
    def grow(self, case: str, **options: str) -> bytes:
        extra = {f"NEARMALLOC_{name}": value for name, value in options.items()}
        count()
        return self.run_preloaded([PROGRAMS / "grown", case], extra=extra).out

    def test_arrays_keep_their_bytes(self) -> None:
        self.grow("2")

    def test_arrays_keep_their_bytes_with_small_pages_in_many_shards(self) -> None:
        self.grow("3", TOPOLOGY=MANY_CPUS, HUGE_PAGES="0")

    def test_arrays_in_turns_take_little_more_than_they_have(self) -> None:
        self.assertLessEqual(int(self.grow("peak")), 105)


if __name__ == "__main__":
    main()
