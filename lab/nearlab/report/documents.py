"""The command `tables`: tables of documents, made from raw results in the repository.

A document has the table between two comments:

    <!-- table: means docs/data/quick.jsonl.xz -->
    <!-- end of table -->

`means` is a row for each allocator and group of rows, `cells` one for each cell, both relative to
the baseline; more words are the allocators shown. Invariant: what lies between the comments is a
function of the data; nothing else of the document changes.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nearlab import places
from nearlab.report import tables as page_tables
from nearlab.report.analysis import MEMORY, TIME, Analysis
from nearlab.results import record
from nearlab.results.record import ORIGINS, RecordError

_MARKED = re.compile(
    r"(?P<head><!-- table: (?P<words>[^\n]+) -->\n).*?(?P<foot><!-- end of table -->)", re.DOTALL
)


def _means(analysis: Analysis, names: Sequence[str]) -> list[Sequence[str]]:
    base = analysis.base
    rows: list[Sequence[str]] = [
        ("group", "allocator", f"time / {base}", "without one row", f"memory / {base}")
    ]
    for origin in analysis.origins:
        told = f"{ORIGINS[origin]}, {analysis.told(analysis.common(TIME, origin))}"
        for one in analysis.standings(origin):
            if not names or one.allocator in names:
                out = page_tables.without_one(analysis, one.allocator, TIME, origin)
                means = page_tables.interval(one.time), out, page_tables.interval(one.memory)
                rows.append((told, one.allocator, *means))
    return rows


def _cells(analysis: Analysis, names: Sequence[str]) -> list[Sequence[str]]:
    shown = [one for one in names or analysis.compared if one != analysis.base]
    rows: list[Sequence[str]] = [("cell", *(f"{one}: time, memory" for one in shown))]
    for cell in analysis.record.cells:
        found = [
            ", ".join(
                page_tables.interval(analysis.ratio(cell.name, one, analysis.base, metric))
                for metric in (TIME, MEMORY)
            )
            for one in shown
        ]
        rows.append((cell.name, *found))
    return rows


_KINDS = {"means": _means, "cells": _cells}


def made(words: str, root: Path) -> str:
    """The table that the words of a comment ask for. Raises RecordError."""
    kind, _, rest = words.partition(" ")
    file, *names = rest.split() or [""]
    if kind not in _KINDS:
        raise RecordError(f"unknown table {kind!r}; there are: {', '.join(_KINDS)}")
    heading, *rows = _KINDS[kind](Analysis(record.read(root / file)), names)
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def filled(text: str, root: Path) -> str:
    """The document with all its tables made anew."""
    return _MARKED.sub(lambda at: at["head"] + made(at["words"], root) + at["foot"], text)


def tables(
    documents: Annotated[list[Path], typer.Argument(metavar="DOCUMENT...")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if a table is another.")
    ] = False,
) -> None:
    """Writes the tables of documents anew from the raw results that they name."""
    other = False
    for path in documents:
        try:
            before = path.read_text(encoding="utf-8")
            after = filled(before, places.ROOT)
        except (RecordError, OSError) as error:
            raise typer.BadParameter(f"{path}: {error}") from None
        if after != before:
            other = True
            print(f"{path}: {'has another table' if check else 'written'}")
            if not check:
                path.write_text(after, encoding="utf-8")
    if check and other:
        raise typer.Exit(1)
