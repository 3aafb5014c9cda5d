"""`./near manycore calibrate`: the costs of this machine, as manycore/calibrate measures them, in a
machine file.

Invariant: every number of the file is measured or read from the system, except those that the
file itself calls estimates.
"""

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from nearlab.runs import interleave
from nearmanycore import places


class CalibrationError(RuntimeError):
    """This machine cannot be measured, in one line."""


def measure() -> dict[str, Any]:
    """Compiles and runs the program."""
    program = places.build() / "calibrate"
    program.parent.mkdir(parents=True, exist_ok=True)
    source = places.CALIBRATE
    compiled = ["g++", "-std=c++20", "-O2", "-pthread", str(source), "-o", str(program)]
    for command in (compiled, [str(program)]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise CalibrationError(f"{command[0]} is missing") from None
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise CalibrationError(f"{Path(command[0]).name}: {said[:200]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def costs(measured: dict[str, Any]) -> dict[str, float]:
    """The `[ns]` of a machine file, from what the program measured (manycore/calibrate)."""
    # A new page is zeroed in its fault. A huge page has 2,048 KiB, and one fault.
    estimated_huge_fault = 2000.0
    zero = 50.0
    if measured["huge_pages"]:
        zero = max(1.0, (measured["fault_huge"] - estimated_huge_fault) / 2048)
    invalidate = 5.0
    # A handover is a read of the other's line, and an atomic write that takes it.
    transfer = (measured["handover"] - invalidate - measured["atomic"]) / 2
    wake = measured["futex_wake"]
    switch = max(100.0, measured["context_switch"] - measured["system_call"])
    return {
        "memory_local": measured["memory"],
        "memory_remote": measured["memory"],
        "transfer_core": transfer,
        "transfer_socket": transfer,
        "invalidate": invalidate,
        "atomic": max(0.0, measured["atomic"] - measured["l1"]),
        "basic_block": 0.5,
        "system_call": measured["system_call"],
        "fault_small": max(0.0, measured["fault_small"] - 4 * zero),
        "fault_huge": estimated_huge_fault,
        "zero_kibibyte": zero,
        "unmap_page": measured["unmap_page"],
        "interrupt_send": measured["interrupt_send"],
        "interrupt_take": measured["interrupt_take"],
        "futex_wait": switch,
        "futex_wake": wake,
        "context_switch": switch,
        "idle_wake": max(0.0, measured["futex_wait"] - switch),
        "quantum": 4e6,
    }


def cache(level: str) -> tuple[int, int]:
    """KiB and ways of a cache of the first processor."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        read = {name: (index / name).read_text().strip() for name in ("level", "type", "size")}
        if read["level"] == level and read["type"] != "Instruction":
            ways = int((index / "ways_of_associativity").read_text())
            return int(read["size"].removesuffix("K")), max(1, min(ways, 64))
    return {"1": (32, 8), "2": (1024, 8), "3": (32768, 16)}[level]


def machine_file(measured: dict[str, Any]) -> str:
    """The text of the machine file."""
    number = len(os.sched_getaffinity(0))
    date = time.strftime("%d %B %Y", time.gmtime()).lstrip("0")
    lines = [
        f"# Measured by `./near manycore calibrate` on {date}: {interleave.machine()['cpu']},",
        f"# {number} processors, Linux {platform.release()}. Estimates, not measured: basic_block,",
        "# invalidate, fault_huge (the rest of a huge fault is zeroing), quantum. The machine has",
        "# one node, whatever the real one has.",
        "",
        f'description = "{number} processors that share an L3: this machine, measured"',
        "sockets = 1",
        f"cores = {number}",
        "threads = 1",
        "shared_core_percent = 100",
        f"huge_pages = {str(_huge_pages_always()).lower()}",
        "distances = [\n  [10],\n]",
    ]
    for level in "123":
        kib, ways = cache(level)
        lines += ["", f"[l{level}]", f"kib = {kib}", f"ways = {ways}"]
        lines += [f"ns = {measured[f'l{level}']:.2f}"]
    lines += ["", "[ns]", *(f"{key} = {value:.1f}" for key, value in costs(measured).items())]
    return "\n".join(lines) + "\n"


def _huge_pages_always() -> bool:
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text(encoding="utf-8")
    except OSError:
        return False
    return "[always]" in text
