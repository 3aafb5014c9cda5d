"""Guests of the NUMA machine for tests, without QEMU: their output, and a whole guest (`main`).

The whole guest reads the file system that it is given. Each step in it succeeds, and each measured
step has counts, with as many remote accesses as the test sets for its allocator and seed.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

FACTS = '{"kernel": "6", "online": "0-1", "memory": "0-1", "cpus": "0-1"}'
AUDIT = (
    '{"believes": true, "pages": 2000, "wrong": 0, "not_present": 0, "pages_away": 0, '
    '"blocks_away": 0, "nodes": 2, "spills": 0, "bind_refused": 0}'
)
EVENTS = {"loads": 60, "stores": 40, "misses": 7, "bounces": 3, "upgrades": 0}
CPU = {"pages_4k": 5, "pages_2m": 1, "excluded": {}}


def guest_that_says(fake, result: str, facts: str = FACTS, step: str = "audit"):
    said = f"near-vm begin 00-facts\n{facts}\nnear-vm end 00-facts 0\n"
    said += f"near-vm begin 01-{step}-1\n{result}\nnear-vm end 01-{step}-1 0\n"
    return fake(f'cat >"$said" <<\'SAID\'\n{said}SAID\necho tail >"$console"')


def guest_that_counts(fake, remote: Mapping[str, Sequence[int]]):
    """The keys of `remote` are file names of preloaded libraries; without a library, `glibc`."""
    made = json.dumps({name: list(numbers) for name, numbers in remote.items()})
    return fake(f"exec '{sys.executable}' '{__file__}' '{made}' \"$@\"")


def region(remote: int) -> dict:
    """A region with a processor of node 0 that accessed node 1 so often."""
    heap = {"0": EVENTS, "1": EVENTS | {"loads": remote, "stores": 0}}
    cpus = {"0": CPU | {"heap": heap}}
    return {"complete": True, "excluded_pages": 9, "pages_4k": 5, "pages_2m": 1, "cpus": cpus}


def counts_of(*regions: dict) -> str:
    shown = {"samples": 1, "first": 0, "last": 0}
    calibration = {"nodes": {"0": shown, "1": shown}, "conflicts": 0, "wrong_cpus": 0}
    made = {"format": 1, "exited": True, "cache": {"kib": 256, "ways": 8, "line": 64}}
    made |= {"cpus": {"0": 0, "1": 0, "2": 1, "3": 1}, "calibration": calibration, "malformed": 0}
    return json.dumps(made | {"regions": regions})


def main(remote: dict[str, list[int]], words: list[str]) -> None:
    """Behaves as QEMU does with these words."""
    if "--version" in words:
        print("QEMU emulator version 0 (none)")
        return
    files = Path(words[words.index("-initrd") + 1]).read_bytes()
    steps = re.findall(rb"steps/\d+-[\w-]+(?=\0)", files)
    library = re.search(rb"LD_PRELOAD=/lab/(\S+)", files)
    nodes = sum(word.startswith("node,nodeid=") for word in words)
    facts = json.loads(FACTS) | dict.fromkeys(("online", "memory"), f"0-{nodes - 1}")
    said, seeds = "", 0
    for step in (each.decode().removeprefix("steps/") for each in steps):
        result = facts if step == "00-facts" else {"verified": True}
        said += f"near-vm begin {step}\n{json.dumps(result)}\nnear-vm end {step} 0\n"
        seeds += step[-1].isdigit()
    (plugin,) = (word for word in words if ",out=" in word)
    numbers = remote[library[1].decode() if library else "glibc"][:seeds]
    out = re.search(r"out=([^,]+)", plugin)
    Path(out[1]).write_text(counts_of(*map(region, numbers)))
    (said_to,) = (word for word in words if word.endswith("/said"))
    Path(said_to.removeprefix("file:")).write_text(said)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
