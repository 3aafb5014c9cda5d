#!/usr/bin/env python3
"""The counting plugin against accesses that are known: `known_counts.py TOPOLOGY`.

A guest is calibrated and runs known_pattern; raw counts must be equal to what known_pattern says
that it did, and so must the events of the cache model that it names. Wrong arguments must keep QEMU
from starting.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nearvm import counts, folders, machine, topology, verdict
from nearvm.guest import Step
from nearvm.machine import Machine, Plugin

SKIPPED = 77
EXACT = ("loads", "stores")  # counts that a pattern does not name must be 0
MOST_NAMED = 32  # pages of a region that are named
PROGRAMS = ("calibrate", "known_pattern")
WRONG = {
    "": "cpus=CPU:NODE+CPU:NODE... is missing",
    "cpus=0:0": "out=FILE is missing",
    "cpus=0:0,out=/no/such/folder/file": "cannot write",
    "cpus=0,out=OUT": "is not CPU:NODE",
    "cpus=1:0,out=OUT": "a CPU in between is missing",
    "cpus=0:0+1:0,out=OUT": "not as many as the machine has",
    "cpus=0:0,out=OUT,cache_kib=3": "a power of two of sets",
    "cpus=0:0,out=OUT,line=x": "'x' is no number",
    "cpus=0:0,out=OUT,colour=red": "'colour' is no argument",
}


def plugin_of(place: topology.Topology, out: Path) -> Plugin:
    nodes = "+".join(f"{cpu}:{node}" for cpu, node in enumerate(place.node_of_cpu))
    return Plugin(folders.program("libnearcount.so"), {"cpus": nodes, "out": str(out)})


def run(guests: Machine, where: str) -> tuple[dict, counts.Counts]:
    """What the guest says that it did, and what was counted."""
    place = topology.load(where)
    steps = [Step(name, folders.program(name)) for name in PROGRAMS]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts.json"
        output = machine.boot(guests, place, steps, plugin=plugin_of(place, out))
        for said in verdict.read(output.said):
            if failure := said.failure():
                raise SystemExit(failure)
            result = said.result()
        return result, counts.read(out)


def faults_of(pattern: dict, region: counts.Region) -> Iterator[str]:
    """Where the counts of a region are not those of its pattern."""
    known = {(cpu, str(node), event): number for cpu, node, event, number in pattern["counts"]}
    places_of = {(cpu, node) for cpu, of in region.cpus.items() for node in of.heap}
    wanted = known | {
        (*place, event): 0 for place in places_of for event in EXACT if (*place, event) not in known
    }
    for (cpu, node, event), number in sorted(wanted.items()):
        events = region.cpus[cpu].heap.get(node)
        found = getattr(events, event) if events else 0
        if found != number:
            yield f"CPU {cpu}, node {node}: {found} {event}, not {number}"
    for cpu, number in pattern["pages"]:
        if region.cpus[cpu].pages_4k != number:
            yield f"CPU {cpu}: {region.cpus[cpu].pages_4k} pages, not {number}"
    if pattern["all_pages"] not in (0, region.pages_4k):
        yield f"{region.pages_4k} pages, not {pattern['all_pages']}"


def misplaced(counted: counts.Counts) -> Iterator[str]:
    """Regions whose remote accesses are not those of the pages that the pattern names."""
    for number, region in enumerate(counted.regions):
        named = sum(accesses for _, accesses in region.remote_pages)
        remote = counted.sums(number).remote
        if named != remote and len(region.remote_pages) < MOST_NAMED:
            yield f"region {number}: {named} remote accesses by page, {remote} in all"


def said_so(errors: str, message: str) -> bool:
    return any("nearcount: " in line and message in line for line in errors.splitlines())


def refusals(qemu: Path) -> Iterator[str]:
    """Wrong arguments with which QEMU starts, or whose error does not say what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        for arguments, message in WRONG.items():
            words = [folders.program("libnearcount.so"), *arguments.split(",")]
            plugin = ",".join(str(word) for word in words if str(word))
            plugin = plugin.replace("OUT", f"{folder}/out")
            command = [qemu, "-machine", "none", "-display", "none", "-S", "-plugin", plugin]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=20)
            except subprocess.TimeoutExpired:
                yield f"QEMU starts with {arguments!r}"
                continue
            if done.returncode == 0 or not said_so(done.stderr, message):
                yield f"{arguments!r}: status {done.returncode}, {done.stderr.strip()!r}"


def main(where: str) -> int:
    try:
        guests = machine.find()
    except machine.MachineError as error:
        print(f"skipped: {error}")
        return SKIPPED
    faults = list(refusals(guests.qemu))
    told, counted = run(guests, where)
    patterns = told["patterns"]
    if len(patterns) != len(counted.regions):
        faults.append(f"{len(counted.regions)} regions, not {len(patterns)}")
    faults += misplaced(counted)
    faults += filter(None, map(counted.complaint, range(len(counted.regions))))
    for pattern, region in zip(patterns, counted.regions, strict=False):
        faults += [f"{pattern['name']}: {fault}" for fault in faults_of(pattern, region)]
    if not counted.file.exited:
        faults.append("the counts were not written when QEMU ended")
    for fault in faults:
        print(fault)
    print(f"cases: {len(WRONG) + sum(len(pattern['counts']) for pattern in patterns)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
