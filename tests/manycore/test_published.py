"""The table of docs/manycore.md that compares two commits follows from the rows in docs/data."""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/data/manycore"
POINTS = (("xeon-8160x4", 48), ("xeon-8160x4", 96), ("xeon-8160x4", 192), ("epyc-256", 256))
PEERS = ("mimalloc2", "mimalloc3", "jemalloc", "snmalloc", "rpmalloc")
Rows = dict[tuple[str, str, str, int], float]


def rows_of(name: str) -> Rows:
    with (DATA / name).open(encoding="utf-8") as file:
        return {
            (row["series"], row["allocator"], row["machine"], int(row["processors"])): float(
                row["mops"]
            )
            for row in csv.DictReader(file)
        }


def shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def line(workload: str, before: Rows, after: Rows) -> str:
    cells = []
    for machine, processors in POINTS:
        own = (workload, "near", machine, processors)
        best = max(after.get((workload, peer, machine, processors), 0.0) for peer in PEERS)
        numbers = (before.get(own), after.get(own), best)
        cells.append(", ".join(shown(number) for number in numbers))
    return f"| {workload} | " + " | ".join(cells) + " |"


def test_the_table_follows_from_the_rows() -> None:
    before, after = rows_of("goals-82f5691.csv"), rows_of("goals-a9c0955.csv")
    lines = (ROOT / "docs/manycore.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| workload | 48 | 96 | 192 | epyc-256, 256 |") + 2
    table = lines[start : lines.index("", start)]
    assert len(table) == 10
    for written in table:
        workload = written.split("|")[1].strip()
        assert written == line(workload, before, after)
