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
    assert all(workload.threads == [1] for workload in beside)
