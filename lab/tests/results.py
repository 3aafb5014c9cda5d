"""Writes files of results as the driver does, for tests of code that reads them.

Invariant: the files obey the format; a test that needs a broken file breaks it itself.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

MACHINE = {
    "cpu": "a processor",
    "cpus": 2,
    "memory_kib": 8 << 20,
    "kernel": "6.1",
    "libc": "glibc 2.36",
    "huge_pages": "madvise",
    "load": 0.5,
}


def allocator(name: str, version: str = "1", missing: str | None = None) -> dict:
    label = {"name": name, "label": name, "version": version, "flags": "", "library": None}
    return label | {"missing": missing}


def cell(name: str, argv: Sequence[str] = ("/build/threadtest", "--size", "64")) -> dict:
    return {
        "cell": name,
        "workload": name,
        "program": "threadtest",
        "threads": 1,
        "x": {},
        "group": "single-threaded",
        "argv": list(argv),
        "oversubscribed": False,
        "missing": None,
    }


def plan(allocators: Iterable[dict], cells: Iterable[dict], **other) -> dict:
    return copy.deepcopy(
        {
            "kind": "plan",
            "format": 1,
            "plan": "quick",
            "plan_hash": "12ab",
            "plan_toml": "",
            "title": "quick",
            "description": "",
            "date": "2026-01-01T00:00:00+00:00",
            "machine": MACHINE,
            "commit": None,
            "rounds": 9,
            "warm_up": 1,
            "allocators": list(allocators),
            "cells": list(cells),
        }
        | other
    )


def run(
    name: str, by: str, number: int, metrics: Mapping[str, float], failure: str | None = None
) -> dict:
    return {
        "kind": "run",
        "cell": name,
        "allocator": by,
        "round": number,
        "place": 0,
        "started": "2026-01-01T00:00:00+00:00",
        "probe_s": 0.01,
        "metrics": {} if failure else dict(metrics),
        "failure": failure,
        "result": None,
        "sample": None,
    }


def count(name: str, by: str, malloc_share: float | None = None, **calls: int) -> dict:
    return {
        "kind": "count",
        "cell": name,
        "allocator": by,
        "calls": {"malloc": 1000, "free": 1000},
        "syscalls": dict(calls),
        "malloc_share": malloc_share,
        "failure": None,
    }


def instructions(name: str, by: str, number: int | None, failure: str | None = None) -> dict:
    return {
        "kind": "instructions",
        "cell": name,
        "allocator": by,
        "instructions": number,
        "failure": failure,
    }


def write(path: Path, header: dict, records: Iterable[dict], complete: bool = True) -> Path:
    lines = [header, *records, {"kind": "end", "date": "2026-01-01", "complete": complete}]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
