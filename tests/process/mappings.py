#!/usr/bin/env python3
"""The allocator's share of the mappings of a process, and malloc without any more mappings.

Invariant: the allocator holds at most a quarter of vm.max_map_count, whatever the processors, the
nodes and the pages. Small blocks from mapped memory need no new mapping.
"""

from preload import PROGRAMS, PreloadTest, count, main

MANY_CPUS = "nodes=1;cpus=0-31;distance=10"
MANY_NODES = "nodes=2;cpus=0-15,16-31;distance=10,20,20,10"


class Mappings(PreloadTest):
    def use(self, case: str, **options: str) -> None:
        extra = {f"NEARMALLOC_{name}": value for name, value in options.items()}
        self.run_preloaded([PROGRAMS / "mappings", case], extra=extra)
        count()

    def test_many_shards_with_small_pages(self) -> None:
        self.use("shards", TOPOLOGY=MANY_CPUS, HUGE_PAGES="0")

    def test_many_shards_with_huge_pages(self) -> None:
        self.use("shards", TOPOLOGY=MANY_CPUS)

    def test_many_shards_on_two_nodes(self) -> None:
        self.use("shards", TOPOLOGY=MANY_NODES, HUGE_PAGES="0")

    def test_the_limit_of_the_process(self) -> None:
        self.use("limit", TOPOLOGY=MANY_CPUS)


if __name__ == "__main__":
    main()
