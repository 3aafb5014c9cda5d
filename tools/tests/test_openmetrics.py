"""The metrics are what OpenMetrics' own parser accepts, and agree with the statistics as JSON."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

LIBRARY = os.environ["NEAR_LIBRARY"]

# Writes all three: as JSON, as metrics, and as JSON again.
PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
library.fdopen.argtypes = [ctypes.c_int, ctypes.c_char_p]
stream = library.fdopen(1, b"w")
kept = [bytearray(100 * i) for i in range(2000)]
for name in ("near_stats_json", "near_stats_openmetrics", "near_stats_json"):
    write = getattr(library, name)
    write.argtypes = [ctypes.c_void_p]
    assert write(stream) == 0
assert library.near_stats_openmetrics(None) == 22
"""


def run(program: str, **options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LD_PRELOAD": LIBRARY} | options
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def written(topology: str) -> tuple[dict[str, Metric], dict, dict]:
    options = {"NEARMALLOC_TOPOLOGY": topology} if topology else {}
    text = run(PROGRAM, **options).stdout
    found = re.fullmatch(r"(\{.*\}\n)(# TYPE.*# EOF\n)(\{.*\}\n)", text, re.DOTALL)
    assert found is not None, text
    return families(found[2]), json.loads(found[1]), json.loads(found[3])


@pytest.mark.parametrize("topology", ["", "nodes=2 cpus=0,1"])
def test_the_parser_accepts_them_and_they_agree_with_json(topology: str) -> None:
    metrics, before, after = written(topology)
    compared = 0
    for name, family in metrics.items():
        assert name.startswith("nearmalloc_"), name
        assert family.documentation.endswith("."), name
        assert (family.unit == "bytes") == name.endswith("_bytes"), name
        field = {
            "span_bytes": "in_spans",
            "parked_heaps": "heaps_parked",
            "free_batch_remote_groups": "free_batch_remote",
            "large_bytes": "large",
        }.get(name.removeprefix("nearmalloc_"), name.removeprefix("nearmalloc_"))
        field = field.removesuffix("_bytes") if field not in before["totals"] else field
        for sample in family.samples:
            if {"by_node", "kind"} & set(sample.labels) or family.type == "info":
                continue
            values = [
                stats["totals"]
                if not sample.labels
                else next(
                    node for node in stats["nodes"] if str(node["node"]) == sample.labels["node"]
                )
                for stats in (before, after)
            ]
            low, high = sorted(value[field] for value in values)
            assert low <= sample.value <= high, f"{name}: {low} to {high}, not {sample.value}"
            compared += 1
    assert compared >= 13 + 13 * len(before["nodes"])
    nodes = len(before["nodes"])
    assert len(metrics["nearmalloc_freed_blocks"].samples) == nodes * nodes
    assert metrics["nearmalloc_purged_bytes"].type == "counter"
    assert sum(each.value for each in metrics["nearmalloc_committed_bytes"].samples) > 1e6


def test_each_field_of_the_statistics_is_a_metric() -> None:
    metrics, before, _ = written("")
    count = (
        len(before["nodes"][0])
        - 1
        + len(set(before["totals"]) - set(before["nodes"][0]) - {"nodes", "spills"})
    )
    assert len(metrics) == count + 3, "each field; the version, the freed blocks, the events"


def test_events_are_counted() -> None:
    """The process needs memory, so its node grows; and it frees what is no block, twice."""
    program = PROGRAM.replace(
        "for name in",
        "library.free.argtypes = [ctypes.c_void_p]\n"
        "room = ctypes.create_string_buffer(4096)\n"
        "for _ in range(2): library.free(ctypes.addressof(room) // 16 * 16 + 1024)\n"
        "for name in",
    )
    text = run(program, NEARMALLOC_INVALID="ignore").stdout
    metrics = families(text[text.index("# TYPE") : text.index("# EOF") + 6])
    samples = metrics["nearmalloc_recorded_events"].samples
    assert {sample.labels["kind"] for sample in samples} == {
        "spill",
        "growth",
        "purge",
        "bind_refused",
        "error",
    }
    of_kind = {sample.labels["kind"]: sample.value for sample in samples}
    assert of_kind["growth"] >= 1
    assert of_kind["error"] == 1, "both are within a second"
    assert of_kind["spill"] == 0


def test_the_documented_list_is_what_is_written() -> None:
    metrics, _, _ = written("")
    page = (Path(__file__).parents[2] / "docs/memory.md").read_text(encoding="utf-8")
    # Those of processes from outside are the exporter's.
    row = r"^\| `(nearmalloc_(?!process_)\w+)` \| (.*?) \| (.*) \|$"
    documented = re.findall(row, page, re.MULTILINE)
    expected = {
        (
            family.samples[0].name,
            ", ".join(f"`{label}`" for label in family.samples[0].labels),
            family.documentation,
        )
        for family in metrics.values()
    }
    assert set(documented) == expected


def test_the_option_writes_them_at_exit() -> None:
    result = run("print(1)", NEARMALLOC_STATS="openmetrics")
    metrics = families(result.stderr)
    (version,) = metrics["nearmalloc_build"].samples
    header = Path(__file__).parents[2] / "include/nearmalloc/nearmalloc.h"
    digits = re.findall(r"#define NEAR_VERSION_\w+ (\d+)", header.read_text(encoding="utf-8"))
    assert version.labels == {"version": ".".join(digits)}
