"""The table at the end of a run: which allocators are compared with which."""

import io
import re

from rich.console import Console

import results
from nearlab.results import summary


def printed(
    allocators: list[str],
    runs: dict[str, dict[str, float | None]],
    metric: str = "seconds",
    **marks: dict,
) -> str:
    """The table for medians by cell and allocator; None: the runs failed."""
    cells = [results.cell(name) | marks.get(name, {}) for name in runs]
    header = results.plan(map(results.allocator, allocators), cells)
    records = [
        results.run(cell, name, number, {metric: value or 0}, None if value else "SIGSEGV")
        for cell, values in runs.items()
        for name, value in values.items()
        for number in (1, 2, 3)
    ]
    out = io.StringIO()
    summary.show(Console(file=out, width=120), [header, *records])
    return out.getvalue()


def bases(text: str) -> list[str]:
    """The allocators that the tables compare with; titles are wrapped."""
    return re.findall(r"ratio to (\w+)", " ".join(text.split()))


def row(text: str, name: str) -> list[str]:
    """The entries in the row of a cell."""
    rows = ([part.strip() for part in line.split("\u2502")[1:-1]] for line in text.splitlines())
    return next(parts for parts in rows if parts and parts[0] == name)


def test_ratios_to_glibc_and_a_dash_for_who_did_not_run():
    text = printed(
        ["glibc", "a", "b"],
        {"one": {"glibc": 2.0, "a": 1.0, "b": 3.0}, "two": {"glibc": 1.0, "b": 0.5}},
    )
    assert row(text, "one") == ["one", "1.00", "0.50", "1.50"]
    assert row(text, "two") == ["two", "1.00", "-", "0.50"]
    assert bases(text) == ["glibc"]


def test_ablations_have_their_own_table_and_base():
    text = printed(
        ["glibc", "design", "design+x:off"],
        {"one": {"glibc": 2.0, "design": 1.0}, "ablation": {"design": 2.0, "design+x:off": 3.0}},
    )
    assert bases(text) == ["glibc", "design"]
    assert row(text, "one") == ["one", "1.00", "0.50"]
    assert row(text, "ablation") == ["ablation", "1.00", "1.50"]


def test_one_allocator_shows_seconds():
    text = printed(["glibc", "a"], {"one": {"a": 1.25}})
    assert bases(text) == []
    assert row(text, "one") == ["one", "1.250"]


def test_who_failed_is_named():
    text = printed(
        ["glibc", "a"], {"one": {"glibc": 1.0, "a": None}, "two": {"glibc": None, "a": 1.0}}
    )
    assert row(text, "one") == ["one", "1.00", "failed"]
    assert row(text, "two") == ["two", "failed", "-"]
    assert "one, a: SIGSEGV (3 x)" in text


def test_memory_has_a_table_of_its_own():
    text = printed(["glibc", "a"], {"one": {"glibc": 100.0, "a": 150.0}}, "memory_kib")
    assert "median peak KiB" in text and row(text, "one") == ["one", "1.00", "1.50"]


def test_groups_stand_apart_and_tuned_rows_are_marked():
    marks = {"one": {"origin": "published", "tuned": True}, "two": {"origin": "own"}}
    both = {"glibc": 1.0, "a": 2.0}
    text = printed(["glibc", "a"], {"two": both, "one": both}, **marks)
    order = [text.index(word) for word in ("published workloads", "one (tuned)", "own workloads")]
    assert order == sorted(order) and text.index("two") > order[-1]
