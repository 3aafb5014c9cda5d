#!/usr/bin/env python3
"""Prints the verdicts on all rows as one table, and writes it to a file.

Invariant: every row is in the table; one without a verdict says so.
Thread-safety: `./near test programs`, when the rows have run.
"""

import argparse
import json
from pathlib import Path

from rows import load

HEAD = ("program", "version", "verdict", "runs", "calls served", "remarks")


def lines(folder: Path) -> list[tuple[str, ...]]:
    found = [HEAD]
    for row in load():
        path = folder / f"{row.name}.json"
        if not path.is_file():
            found.append((row.name, "", "did not run", "", "", ""))
            continue
        result = json.loads(path.read_text(encoding="utf-8"))
        remark = "; ".join(filter(None, [*result["problems"], result["remark"]]))
        runs = f"{result['good']}/{result['runs']}" if result["runs"] else ""
        calls = f"{result['calls']:,}" if result["runs"] else ""
        found.append((row.name, result["version"], result["verdict"], runs, calls, remark))
    return found


def text_of(table: list[tuple[str, ...]]) -> str:
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD) - 1)]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
              for line in table]
    return "\n".join("  ".join([*cells, line[-1]]).rstrip()
                     for cells, line in zip(padded, table, strict=True)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="the folder that program.py wrote to")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    text = text_of(lines(arguments.results))
    arguments.output.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
