"""The plans of the papers request what the papers measured."""

import math

import pytest

from nearlab.plan import plan as plans

PROCESSORS = 2  # of the preset


def _workloads(name, program):
    keys = plans.load(plans.find(name)).keys
    return [workload for workload in keys.workload if workload.program == program]


def test_chapter_4_has_the_threads_of_its_claim_on_more_threads_than_processors():
    trees = [
        each
        for each in _workloads("paper-kim-ch4", "set_updates")
        if each.name in ("abtree", "occtree")
    ]
    assert len(trees) == 2
    for workload in trees:
        assert math.ceil(PROCESSORS * 240 / 192) in workload.threads


def test_chapter_4_asks_for_the_text_where_it_asks_for_its_number_of_processors():
    """With the constants of the binaries no depth depends on the number of processors."""
    keys = plans.load(plans.find("paper-kim-ch4")).keys
    names = [name for workload in keys.workload for name in workload.allocators or ()]
    deep = [name for name in names if "processors:" in name]
    assert deep
    assert all("+constants:text" in name for name in deep)


def test_linux_scalability_has_the_objects_of_the_report():
    for workload in _workloads("paper-a2alloc", "linux_scalability"):
        assert workload.options["objects"] == 100_000


@pytest.mark.parametrize("program", ["larson", "phong", "linux_scalability", "threadtest"])
def test_memory_of_a2alloc_is_compared_in_bytes_taken(program):
    plan = plans.load(plans.find("paper-a2alloc"))
    figures = [figure for figure in plan.keys.figure if figure.y == "design_bytes_taken"]
    assert [figure.relative_to for figure in figures] == ["kheap"]
    beside = [
        workload
        for workload in _workloads("paper-a2alloc", program)
        if (workload.name or "").startswith("bytes taken: ")
    ]
    assert [workload.allocators for workload in beside] == [["a2alloc", "kheap"]]
    assert all((workload.threads[0], workload.threads[-1]) == (1, 8) for workload in beside)


_LENGTH = {"operations", "rounds", "cycles", "generations", "allocations"}  # of a run


def _cells(plan):
    """The options of each of a plan's rows but its length, by the workload's name."""
    return {
        row.label: (row.program, {k: v for k, v in row.options.items() if k not in _LENGTH})
        for row in plans.load(plans.find(plan)).rows
    }


@pytest.mark.parametrize("name,least", [("claims", 30), ("claims-others", 20)])
def test_the_times_of_the_claims_are_those_of_the_documents_rows(name, least):
    rows = plans.load(plans.find(name)).rows
    documents = {plan: _cells(plan) for plan in {document for document, _ in map(_place, rows)}}
    assert len(rows) > least
    for row in rows:
        plan, label = _place(row)
        there = documents[plan]
        wanted = there.get(label.removesuffix(", others")) or there[f"ablation: {label}"]
        same = {k: v for k, v in row.options.items() if k not in _LENGTH}
        assert (row.program, same) == wanted, row.label
        assert row.allocators, row.label


def _place(row):
    """The plan and the name that a row of these plans has there."""
    document, _, label = row.label.partition(": ")
    return (document if document == "reclamation" else f"paper-{document}"), label
