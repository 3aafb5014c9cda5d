"""The table at the end of a run: which allocators are compared with which."""

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console

import results
from nearlab.results import record, summary


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
    return shown(header, records)


def shown(header: dict, records: list[dict]) -> str:
    """What the summary of a file of these lines prints."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = results.write(Path(folder) / "a.jsonl", header, records)
        summary.show(Console(file=out, width=120), record.read(path))
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


def test_ratios_noise_failures_and_what_was_not_run_are_told():
    names = ("glibc", "fast", "noisy")
    cells = [
        results.cell("a") | {"oversubscribed": True},
        results.cell("b") | {"missing": "no package"},
    ]
    gone = results.allocator("gone", missing="not found")
    header = results.plan([*map(results.allocator, names), gone], cells)
    series = {"glibc": [9, 2, 2, 2], "fast": [9, 1, 1, 1], "noisy": [9, 1, 2, 3]}
    lines = [
        results.run("a", name, number, {"seconds": seconds})
        for name, values in series.items()
        for number, seconds in enumerate(values)
    ]
    text = shown(header, lines)
    assert row(text, "a (oversubscribed)")[1:] == ["1.00", "0.50", "1.00~"]
    assert "b was not run: no package" in text and "gone is missing: not found" in text
    assert "Fewer than 5" in text
    failed = results.run("a", "fast", 4, {}, "ended by SIGSEGV")
    text = shown(header, [*lines, failed])
    assert "failed" in text and "a, fast: ended by SIGSEGV (1 x)" in text
    enough = [results.run("a", "glibc", number, {"seconds": 1}) for number in range(1, 6)]
    text = shown(header, [*enough, results.run("a", "fast", 1, {}, "ended by SIGSEGV")])
    assert "Fewer than" not in text, "who failed has no runs to be ranked by"


def test_disturbed_runs_are_told_and_do_not_count_where_enough_others_are_left():
    header = results.plan(map(results.allocator, ("glibc", "a")), [results.cell("one")])
    lines = [
        results.run("one", name, number, {"seconds": 9.0 if number > 5 and name == "a" else 1.0})
        | {"disturbed": "noise" if number > 5 and name == "a" else None}
        for name in ("glibc", "a")
        for number in range(1, 12)
    ]
    text = shown(header, lines)
    assert row(text, "one") == ["one", "1.00", "1.00"]
    assert "6 of 22 counted runs were disturbed by other work (the first: noise)." in text
