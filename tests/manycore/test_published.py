"""The tables that compare two commits (docs/manycore.md) and the schemes of reclamation
(reclaim/README.md), and the numbers of docs/papers.md, follow from the rows in docs/data."""

import csv
import re
from pathlib import Path

import pytest

from nearmanycore import machines, plan

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
    before, after = rows_of("goals-82f5691.csv"), rows_of("goals-908711f.csv")
    lines = (ROOT / "docs/manycore.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| workload | 48 | 96 | 192 | epyc-256, 256 |") + 2
    table = lines[start : lines.index("", start)]
    assert len(table) == 10
    for written in table:
        workload = written.split("|")[1].strip()
        assert written == line(workload, before, after)


BOUNDS = {
    "debra": "all that is retired from then on",
    "checkpoints": "all that is retired from then on",
    "qsbr": "all that is retired from then on",
    "token": "all that is retired from then on",
    "hazard_pointers": "what slots hold",
    "ping": "what slots hold",
    "ibr": "what lived at its last read",
    "hyaline": "what was born by its last read",
    "leaky": "all that is ever retired",
}


def scheme_line(scheme: str, rows: list[dict[str, str]]) -> str:
    def cell(series: str, field: str) -> str:
        found = {
            int(row["processors"]): float(row[field]) for row in rows if row["series"] == series
        }
        return ", ".join(plan_shown(found[processors]) for processors in (48, 192))

    cells = [f"`{scheme if scheme != 'ping' else 'ping_epochs'}`"]
    cells += [cell(f"{structure} {scheme}", "mops") for structure in ("abtree", "hash_map")]
    cells.append(cell(f"hash_map {scheme}", "peak_unreclaimed"))
    stalled = f"hash_map {scheme}, a reader stalls"
    cells.append(cell(stalled, "peak_unreclaimed") if scheme != "leaky" else "the same")
    return "| " + " | ".join([*cells, BOUNDS[scheme]]) + " |"


def plan_shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def test_the_table_of_schemes_follows_from_the_rows() -> None:
    with (DATA / "reclamation.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = (ROOT / "reclaim/README.md").read_text(encoding="utf-8").splitlines()
    start = next(i for i, each in enumerate(lines) if each.startswith("| scheme | tree, Mop/s"))
    table = lines[start + 2 : lines.index("", start)]
    assert table == [scheme_line(scheme, rows) for scheme in BOUNDS]


# The documents of docs/papers.md with simulated runs, by their plan.
DOCUMENTS = {
    "Aigner15": "scalloc",
    "Yang23": "numalloc",
    "Kim23 §3": "kim-ch3",
    "Kim23 §4": "kim-ch4",
    "Podolsky13": "nalloc",
    "Boritz": "a2alloc",
}
MEASURED = {
    "Mop/s": lambda row: row["mops"],
    "MiB": lambda row: row["peak_mib"],
    "transfers": lambda row: float(row["near"]) + float(row["far"]),
    "us for locks": lambda row: float(row["wait_locks_ns"]) / 1000,
    "epochs": lambda row: row["epochs"] or -1,
    "retired": lambda row: row["peak_unreclaimed"] or -1,
    "in a row": lambda row: row["longest_free_run"] or -1,
    "% freeing": lambda row: 100 * float(row["freeing_share"] or -1),
}
NUMBER = re.compile(rf"(?<![\d.,])([\d,]+(?:\.\d+)?) ({'|'.join(MEASURED)})")


@pytest.mark.parametrize("name", DOCUMENTS.values())
def test_the_rows_of_a_document_are_of_its_plan(name: str) -> None:
    wanted = plan.load(name)
    most = machines.load(wanted.machine).machine.processors
    known = {
        (series.name, allocator)
        for series in wanted.series
        for allocator in series.allocators or wanted.allocators
    }
    rows = plan.read(DATA / f"documents-{name}.csv")
    for row in rows:
        assert (row["series"], row["allocator"]) in known
        assert row["machine"] == wanted.machine and int(row["processors"]) <= most
    print(f"cases: {len(rows)}")


def test_the_numbers_of_the_documents_page_are_those_of_the_rows() -> None:
    cases = dict.fromkeys(MEASURED, 0)
    for written in (ROOT / "docs/papers.md").read_text(encoding="utf-8").splitlines():
        document = re.match(r"\| \[([^\]]+)\] ", written)
        if document is None or document.group(1) not in DOCUMENTS:
            continue
        rows = plan.read(DATA / f"documents-{DOCUMENTS[document.group(1)]}.csv")
        for number, unit in NUMBER.findall(written.split("|")[-2]):
            digits = len(number.partition(".")[2])
            known = {f"{float(MEASURED[unit](row)):,.{digits}f}" for row in rows}
            assert number in known, f"{number} {unit}: {written}"
            cases[unit] += 1
    assert all(cases.values()), cases
    print(f"cases: {sum(cases.values())}")
