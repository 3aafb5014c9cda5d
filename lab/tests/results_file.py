"""Writes results files for the tests of their readers: small ones, and one with everything."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

MACHINE = {
    "cpu": "A Processor",
    "cpus": 2,
    "memory_kib": 8 << 20,
    "kernel": "6.1.0",
    "libc": "glibc 2.36",
    "huge_pages": "always [madvise] never",
    "load": 0.1,
}

# Factors of time and memory, relative to glibc.
ALLOCATORS = {
    "nearmalloc": (0.74, 0.86),
    "glibc": (1.0, 1.0),
    "limit": (0.45, 1.3),
    "mimalloc3": (0.79, 1.02),
    "mimalloc2": (0.83, 1.1),
    "jemalloc": (0.95, 0.93),
    "tcmalloc": (0.80, 1.2),
    "google-tcmalloc": (0.78, 1.28),
    "snmalloc": (0.76, 0.98),
    "rpmalloc": (0.81, 1.15),
    "tbb": (1.08, 1.4),
}
SWEEP_FIGURES = """
[[figure]]
name = "threadtest-speedup"
kind = "lines"
workloads = ["threadtest"]
x = "threads"
y = "speedup"
title = "threadtest: speed-up"
caption = "A paper, figure 5a: 10 rounds of 100,000 objects of 64 B."
[[figure]]
name = "sizes-time"
kind = "lines"
workloads = ["sizes", "locality"]
x = "size"
y = "time"
relative_to = "glibc"
title = "Object sizes"
caption = "A paper, figure 9: sizes from 16 B to 4 KiB."
[[figure]]
name = "single-bars"
kind = "bars"
workloads = ["churn*"]
y = "memory_kib"
title = "Peak memory of churn"
caption = "A paper, table 2."
[[figure]]
name = "single-scatter"
kind = "scatter"
workloads = ["churn*"]
title = "churn: time against memory"
caption = "A paper, figure 1."
[[figure]]
name = "faults"
kind = "heatmap"
workloads = ["*"]
y = "minor_faults"
relative_to = "glibc"
title = "Page faults"
caption = "No paper's."
[[figure]]
name = "fragmentation-curve"
kind = "curve"
workloads = ["fragmentation"]
series = "curve"
y = "resident memory, MiB"
x = "operations"
title = "Fragmentation over time"
caption = "A paper, figure 7."
"""


def plan_line(
    allocators: list[str], cells: list[dict], *, figures: str = "", rounds: int = 9
) -> dict:
    return {
        "kind": "plan",
        "format": 1,
        "plan": "quick",
        "plan_hash": "0" * 64,
        "plan_toml": f'name = "quick"\nrounds = {rounds}\n{figures}',
        "title": "Quick: every workload, small",
        "description": "Twenty workloads of the papers, scaled to two cores.",
        "date": "2026-11-21T10:00:00+00:00",
        "machine": MACHINE,
        "commit": "0123456789abcdef",
        "rounds": rounds,
        "warm_up": 1,
        "probe_s": 0.05,
        "allocators": [allocator(name) for name in allocators],
        "cells": cells,
    }


def allocator(name: str, missing: str | None = None) -> dict:
    return {
        "name": name,
        "label": name,
        "version": "1.2.3",
        "flags": "-O2",
        "library": None if name == "glibc" else f"lib{name}.so",
        "missing": missing,
    }


def cell(
    workload: str, *, threads: int | None = None, x: dict | None = None, group: str = "single"
) -> dict:
    name = workload + (f" t={threads}" if threads else "")
    name += "".join(f" {key}={value}" for key, value in (x or {}).items())
    return {
        "cell": name,
        "workload": workload,
        "program": workload.split()[0],
        "threads": threads,
        "x": x or {},
        "group": group,
        "argv": [workload.split()[0]],
        "oversubscribed": bool(threads and threads > MACHINE["cpus"]),
        "missing": None,
    }


def run_line(
    cell_name: str,
    allocator_name: str,
    number: int,
    metrics: dict | None = None,
    *,
    failure: str | None = None,
    result: dict | None = None,
) -> dict:
    return {
        "kind": "run",
        "cell": cell_name,
        "allocator": allocator_name,
        "round": number,
        "place": 0,
        "started": "2026-11-21T10:00:00+00:00",
        "probe_s": 0.05,
        "metrics": {} if failure else metrics,
        "failure": failure,
        "result": None if failure else result or {},
        "sample": None,
    }


def write(path: Path, lines: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def rich_cells() -> list[dict]:
    cells = [cell("threadtest", threads=n, group="multi-threaded") for n in (1, 2, 4, 16, 64)]
    cells += [cell("larson", threads=n, group="multi-threaded") for n in (1, 2, 4)]
    cells += [cell("sizes", x={"size": 4**n}, group="single-threaded") for n in range(2, 7)]
    cells += [cell("locality", x={"size": 4**n}, group="single-threaded") for n in range(2, 5)]
    names = ("churn small", "churn large", "realloc", "start-up", "phong", "shbench", "acdc")
    cells += [cell(name, group="single-threaded") for name in names]
    cells += [cell("fragmentation", group="memory")]
    cells += [cell(f"program:{name}", group="program") for name in ("redis", "gcc", "sqlite", "z3")]
    return [*cells, cell("program:lammps", group="program") | {"missing": "no package"}]


def rich_lines(names: Sequence[str] = tuple(ALLOCATORS), rounds: int = 9) -> list[dict]:
    """The named allocators and a missing one, with a crash, a timeout, noise and curves."""
    draw = random.Random(7)
    cells = rich_cells()
    head = plan_line(list(names), cells, figures=SWEEP_FIGURES, rounds=rounds)
    head["allocators"].append(allocator("super0", "not built"))
    bias = {(c["cell"], a): (draw.gauss(1, 0.16), draw.gauss(1, 0.2)) for c in cells for a in names}
    lines: list[dict] = [head]
    for number in range(rounds + 1):
        for one in cells:
            level = draw.gauss(1, 0.03)
            for name in names:
                line = _rich_run(draw, one, name, number, level, bias)
                if line:
                    lines.append(line)
    lines += [_count(draw, one["cell"], name) for one in cells[:-1] for name in names]
    return [*lines, {"kind": "end", "date": "2026-11-21T11:00:00+00:00", "complete": True}]


def _rich_run(draw, one: dict, name: str, number: int, level: float, bias: dict) -> dict | None:
    place = one["cell"]
    if one["missing"] or (name == "limit" and one["group"] in ("program", "memory")):
        return None
    if name == "tbb" and place == "realloc":
        return run_line(place, name, number, failure="ended by SIGSEGV")
    if name == "rpmalloc" and place == "larson t=4" and number in (0, 3):
        return run_line(place, name, number, failure="timed out")
    time, memory = ALLOCATORS[name]
    noise = 0.25 if place == "start-up" and name == "jemalloc" else 0.02
    seconds = abs(time * bias[place, name][0] * level * draw.gauss(1, noise)) + 0.01
    if name not in ("glibc", "limit"):
        seconds /= 1 + 0.1 * min(one["threads"] or 1, 4)
    kib = 50_000 * memory * abs(bias[place, name][1]) + draw.random() * 100
    metrics = {
        "seconds": seconds,
        "operations": 1e6,
        "ops_per_s": 1e6 / seconds,
        "memory_kib": kib,
        "minor_faults": 1000 * memory * draw.gauss(1, 0.1),
        "malloc_p99_ns": 80 * time,
    }
    curve = [[step, kib / 1024 * (0.4 + step / 20), 20 + step] for step in range(12)]
    return run_line(place, name, number, metrics, result={"curve": curve})


def _count(draw, place: str, name: str) -> dict:
    return {
        "kind": "count",
        "cell": place,
        "allocator": name,
        "calls": {"malloc": 1_000_000, "calloc": 10, "realloc": 5, "free": 1_000_000},
        "syscalls": {"mmap": draw.randrange(400), "munmap": 9, "madvise": draw.randrange(99)},
        "malloc_share": 0.004 if place == "program:z3" else 0.3,
        "failure": None,
    }
