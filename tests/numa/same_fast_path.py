#!/usr/bin/env python3
"""A malloc with its free is the same number of instructions on one node and on several.

Callgrind counts them exactly, on a machine pretended to have one node, and four.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

from nearlab.measure import instructions
from nearlab.peers import Allocator, find

SKIPPED = 77
MODES = {"pair": (16, 1024, 32768), "batch": (64,)}
NODES = 4
ROUNDING = 0.01  # of an instruction a pair: programs start at other addresses each time


def with_nodes(ours: Allocator, nodes: int) -> Allocator:
    """Each processor is on the next node; with few processors, some nodes have none."""
    processors = range(os.cpu_count() or 1)
    lists = ["+".join(map(str, processors[node::nodes])) for node in range(nodes)]
    topology = f"nodes={nodes} cpus={','.join(lists)}"
    return dataclasses.replace(
        ours, name=f"{nodes} nodes", environment=(("NEARMALLOC_TOPOLOGY", topology),)
    )


def nodes_seen(ours: Allocator) -> int:
    """The topology that the library itself reports."""
    environment = os.environ | dict(ours.environment)
    environment |= {"LD_PRELOAD": str(ours.library), "NEARMALLOC_STATS": "json"}
    said = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=True)
    return len(json.loads(said.stderr)["nodes"])


def is_other(one: float | str, many: float | str) -> bool:
    """The words say why there is no count."""
    if isinstance(one, str) or isinstance(many, str):
        return True
    return abs(one - many) > ROUNDING


def main() -> int:
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return SKIPPED
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # threads do not change their node
    ours = find("nearmalloc")
    cases = [with_nodes(ours, nodes) for nodes in (1, NODES)]
    if [nodes_seen(case) for case in cases] != [1, NODES]:
        print("the topologies are not those that were pretended")
        return 1
    differ = 0
    counted = 0
    for mode, sizes in MODES.items():
        one, many = instructions.count(cases, modes=[mode], sizes=sizes).values()
        for cell, expected in one.items():
            counted += 1
            print(f"{cell}: {expected} with one node, {many[cell]} with {NODES}")
            differ += is_other(expected, many[cell])
    print(f"cases: {counted}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
