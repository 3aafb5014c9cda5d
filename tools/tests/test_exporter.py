"""The exporter's metrics are what OpenMetrics' parser accepts, and the dashboard asks for them."""

import itertools
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import promql_parser
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from modules import run_command
from nearmalloc_tools.exporter.metrics import Processes
from test_top import program, take

DOCS = Path(__file__).parents[2] / "docs"


def exporter(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command("exporter", *words)


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.fixture(scope="module")
def exported():
    """The metrics, and a census of the same process before and after."""
    with program(NEARMALLOC_TOPOLOGY="nodes=2 cpus=0,1") as child:
        before = take(child.pid)
        result = exporter(str(child.pid), "--once")
        assert result.returncode == 0, result.stderr
        yield families(result.stdout), before, take(child.pid)


def labels_of(metrics: dict[str, Metric]) -> dict[str, set[str]]:
    """The labels of each sample's name."""
    return {
        sample.name: set(sample.labels) for family in metrics.values() for sample in family.samples
    }


def of_event(sample: Sample) -> tuple[str, str]:
    return sample.labels["kind"], sample.labels["node"]


def test_the_parser_accepts_them_and_they_agree_with_top(exported):
    metrics, before, after = exported
    compared = 0
    for name, family in metrics.items():
        assert name.startswith("nearmalloc_process_"), name
        assert family.documentation.endswith("."), name
        for unit in ("bytes", "seconds"):
            assert (family.unit == unit) == name.endswith(f"_{unit}"), name
        field = name.removeprefix("nearmalloc_process_").removesuffix("_bytes")
        if hasattr(before.nodes[0], field):
            said = sum(sample.value for sample in family.samples)
            low, high = sorted((before.total(field), after.total(field)))
            assert 0.9 * low <= said <= 1.1 * high, name
            assert len(family.samples) == 2, "one for each node"
            compared += 1
    assert compared == 13
    elsewhere = metrics["nearmalloc_process_freed_elsewhere_blocks"].samples
    nodes = {str(node.node) for node in before.nodes}
    pairs = [(sample.labels["node"], sample.labels["by_node"]) for sample in elsewhere]
    assert len(set(pairs)) == len(pairs) and set(pairs) <= set(itertools.product(nodes, nodes))
    assert all(sample.value > 0 for sample in elsewhere)
    freed = [sum(heap.freed_elsewhere for heap in each.heaps) for each in (before, after)]
    assert freed[0] <= sum(sample.value for sample in elsewhere) <= freed[1]
    assert freed[0] >= 1000, "a thread freed the blocks of another"
    heaps = metrics["nearmalloc_process_heaps"].samples
    assert sum(sample.value for sample in heaps) == len(before.heaps)
    live = metrics["nearmalloc_process_class_live_bytes"].samples
    of_3000 = next(sample for sample in live if int(sample.labels["size"]) >= 3000)
    assert of_3000.value >= 1000 * 3000
    assert metrics["nearmalloc_process_up"].samples[0].value == 1
    known = {(event.kind, str(event.node)) for event in before.events}
    assert "growth" in {kind for kind, _ in known}
    counts = metrics["nearmalloc_process_events"].samples
    assert len(counts) == 5 * 2, "each kind on each node"
    assert known <= {of_event(sample) for sample in counts if sample.value > 0}
    totals = {
        of_event(sample): sample.value
        for sample in metrics["nearmalloc_process_recorded_events"].samples
    }
    assert len(totals) == 5 * 2
    for sample in counts:
        assert totals[of_event(sample)] >= sample.value, "the ring forgets none of so few"
    # The program grew on the node of the CPU that it started on.
    assert totals["growth", "0"] + totals["growth", "1"] >= 1 and totals["error", "0"] == 0
    ages = metrics["nearmalloc_process_event_age_seconds"].samples
    assert known <= {of_event(sample) for sample in ages}
    assert all(0 <= sample.value < 600 for sample in ages)


def test_the_document_lists_them(exported):
    text = (DOCS / "memory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(nearmalloc_process_\w+)` \| (.*?) \|", text, re.MULTILINE)
    listed = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert listed == labels_of(exported[0])


def test_the_dashboard_asks_for_what_is_exported(exported):
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    known = labels_of(exported[0])
    queries = [
        (target["expr"], target["legendFormat"])
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    for expression, _ in queries:
        promql_parser.parse(expression.replace("$__rate_interval", "5m"))  # as Grafana does
    with pytest.raises(ValueError, match="parenthesis"):
        promql_parser.parse(queries[0][0] + "(")
    queries += [(each["query"], "") for each in dashboard["templating"]["list"]][1:]
    assert len(queries) > 10
    for query, legend in queries:
        names = re.findall(r"nearmalloc_\w+", query)
        assert names, query
        for name in names:
            assert name in known, f"{name} of {query} is not exported"
            assert ("rate(" in query) == name.endswith("_total"), query
        used = set(re.findall(r"\{\{(\w+)\}\}", legend)) | set(re.findall(r"(\w+)=~", query))
        for group in re.findall(r"by \(([^)]*)\)", query):
            used |= set(group.split(", "))
        for name in names:
            assert used <= known[name], query


def test_it_serves_them_and_follows_names():
    with program() as child:
        words = [str(child.pid), "--port", "0"]
        command = [sys.executable, "-m", "nearmalloc_tools", "exporter", *words]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr
                where = server.stderr.readline().split()[-1]
                asked = urllib.request.Request(
                    where, headers={"Accept": "application/openmetrics-text; version=1.0.0"}
                )
                with urllib.request.urlopen(asked, timeout=20) as answer:
                    found = families(answer.read().decode())
                assert found["nearmalloc_process_resident_bytes"].samples[0].value > 0
                port = where.split(":")[2].split("/")[0]
                second = exporter(str(child.pid), "--port", port)
                assert second.returncode == 1
                assert f"nearmalloc: cannot listen on 127.0.0.1:{port}: " in second.stderr
            finally:
                server.kill()
        processes = Processes([str(child.pid)])
        assert next(iter(processes.collect())).samples[0].value == 1
        child.kill()
        child.wait()
        ended = {family.name: family for family in processes.collect()}
        assert ended["nearmalloc_process_up"].samples[0].value == 0
        assert ended["nearmalloc_process_resident_bytes"].samples == []


_EXECUTES = """
import os, sys
print("ready", flush=True)
sys.stdin.readline()
os.execv(sys.executable, [sys.executable, "-c", "print('again', flush=True); input()"])
"""


def test_a_process_that_executes_another_program_is_read_anew():
    """It keeps its number and the time of its start."""
    with program(script=_EXECUTES) as child:
        processes = Processes([str(child.pid)])
        assert next(iter(processes.collect())).samples[0].value == 1
        assert child.stdin and child.stdout
        child.stdin.write("go on\n")
        child.stdin.flush()
        assert child.stdout.readline() == "again\n"
        for _ in range(2):
            assert next(iter(processes.collect())).samples[0].value == 1


def test_what_has_ended_is_forgotten():
    with program() as child:
        processes = Processes([str(child.pid)])
        next(iter(processes.collect()))
        assert len(processes._readers) == 1
        child.kill()
        child.wait()
        next(iter(processes.collect()))
        assert processes._readers == {}


def test_it_says_why_it_cannot_export():
    refused = exporter("no-such-name")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "nearmalloc: there is no process named no-such-name\n"
    refused = exporter(str(os.getpid()))
    assert refused.returncode == 1
    assert "does not run on nearmalloc" in refused.stderr
