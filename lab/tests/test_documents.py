"""Tables and numbers of documents are made from the raw results that they name."""

import fnmatch
import json
import lzma
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import results_file as make
from nearlab import places
from nearlab.commands import application
from nearlab.plan import plan as plans
from nearlab.plan.cells import of_plan
from nearlab.report import documents
from nearlab.report.analysis import TIME, Analysis
from nearlab.report.build import draw_figure
from nearlab.results import record
from reporting import content

DOCUMENT = """# Title
<!-- table: means data/a.jsonl.xz nearmalloc -->
old
<!-- end of table -->
Text stays: <!-- number: mean data/a.jsonl.xz time nearmalloc own -->old<!-- end --> of glibc's
time, and <!-- number: ratio data/a.jsonl.xz time nearmalloc glibc *o* -->old<!-- end --> in two.
<!-- number: value data/a.jsonl.xz seconds glibc larson -->old<!-- end --> s in one,
<!-- number: value data/a.jsonl.xz memory_kib glibc "[lp]*o*" -->old<!-- end --> MiB in two.
<!-- table: cells data/a.jsonl.xz -->
<!-- end of table -->
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    raw = make.write(tmp_path / "a.jsonl", content()).read_bytes()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl.xz").write_bytes(lzma.compress(raw))
    monkeypatch.setattr(places, "ROOT", tmp_path)
    return tmp_path


def tables(*words: object) -> int:
    return CliRunner().invoke(application(["tables"]), ["tables", *map(str, words)]).exit_code


TARGETS = '''
[[target]]
name = "level with glibc"
kind = "mean"
workloads = ["churn", "larson"]
metric = "time"
allocator = "{}"
relative_to = "glibc"
at_most = 1
'''


def test_a_table_has_the_targets_of_the_plan(root):
    plan = TARGETS.format("nearmalloc") + TARGETS.format("tbb") + TARGETS.format("gone")
    lines = content(figure=plan)
    raw = make.write(root / "b.jsonl", lines).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    path = root / "a.md"
    path.write_text("<!-- table: targets data/b.jsonl.xz -->\n<!-- end of table -->\n")
    assert tables(path) == 0
    rows = path.read_text().splitlines()[1:-1]
    assert rows[0] == "| target | measured | verdict |"
    assert rows[2].startswith("| level with glibc | 0.500 [") and rows[2].endswith("| reached |")
    assert rows[3].startswith("| level with glibc | 2.000 [") and rows[3].endswith("| missed |")
    assert rows[4].endswith("| not measured |")


def test_a_table_has_the_counts_of_the_named_allocators(root):
    lines = content()
    for line in lines[1:]:
        faults = 1234 if line["allocator"] == "glibc" else 30 * line["round"]
        line["metrics"]["minor_faults"] = faults
    calls = {"mmap": 5, "munmap": 0, "madvise": 20338, "brk": 1}
    count = {"kind": "count", "cell": "larson", "allocator": "glibc", "syscalls": calls}
    failed = {"kind": "count", "cell": "larson", "allocator": "tbb", "syscalls": {}}
    raw = make.write(root / "b.jsonl", [*lines, count, failed]).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    path = root / "a.md"
    path.write_text("<!-- table: counts data/b.jsonl.xz glibc tbb -->\n<!-- end of table -->\n")
    assert tables(path) == 0
    rows = path.read_text().splitlines()[1:-1]
    heading = "| cell: glibc / tbb | page faults | madvise | mmap | munmap | peak memory, MiB |"
    assert rows[0] == heading
    assert rows[3] == "| larson | 1,234 / 90 | 20,338 / – | 5 / – | 0 / – | 2.00 / 4.00 |"
    assert len(rows) == 5 and rows[2].startswith("| churn | 1,234 / 90 | – / – |")


def of_table(root, words: str) -> list[str]:
    """The rows below the heading."""
    path = root / "a.md"
    path.write_text(f"<!-- table: {words} -->\n<!-- end of table -->\n")
    assert tables(path) == 0, words
    return path.read_text().splitlines()[3:-1]


def refused(root, words: str) -> bool:
    path = root / "a.md"
    path.write_text(f"<!-- table: {words} -->\n<!-- end of table -->\n")
    return tables(path) == 2


def test_a_table_compares_two_allocators_in_the_cells_of_patterns(root):
    lines = content()
    lines[0]["cells"][1]["origin"] = "program"
    share = {"kind": "count", "cell": "churn", "allocator": "glibc", "harness_share": 0.9}
    raw = make.write(root / "b.jsonl", [*lines, share]).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    beside = "beside data/b.jsonl.xz nearmalloc glibc"
    assert of_table(root, f"{beside} larson ch*") == [
        "| larson | 0.50 [0.50, 0.50] | 0.50 [0.50, 0.50] |",
        "| churn | – | 0.50 [0.33, 0.60] |",
    ]
    assert refused(root, f"{beside} larson gone") and refused(root, beside)


def test_a_table_has_the_numbers_of_each_allocator_the_least_first(root):
    lines = content()
    lines[0]["allocators"][0]["version"] = "9.9"
    raw = make.write(root / "b.jsonl", lines).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    rows = of_table(root, "allocators data/b.jsonl.xz larson seconds memory_kib")
    names = [row.split("|")[1].strip() for row in rows]
    memory = [float(row.split("|")[4]) for row in rows]
    assert names[0] == "nearmalloc" and memory == sorted(memory) == [1, 2, 4]
    assert rows[0].split("|")[2:4] == [" 9.9 ", " 1 "]
    assert refused(root, "allocators data/b.jsonl.xz larson hours")
    assert refused(root, "allocators data/b.jsonl.xz gone seconds")


def test_a_table_has_the_cells_with_a_faster_allocator(root):
    assert of_table(root, "losses data/a.jsonl.xz") == ["| phong | glibc | 4.00 [4.00, 4.00] |"]


def test_tables_are_made_from_the_compressed_results(root):
    path = root / "README.md"
    path.write_text(DOCUMENT)
    assert tables("--check", path) == 1 and path.read_text() == DOCUMENT
    assert tables(path) == 0
    text = path.read_text()
    means = "| own workloads, 3 cells | nearmalloc | 1.00 [0.89, 1.14] | 0.50 to 1.41 (phong) |"
    assert means.split("|")[:3] == text.splitlines()[4].split("|")[:3]
    assert "0.50 to 1.41 (phong)" in text.splitlines()[4] and "old" not in text
    assert "| larson | 0.50 [0.50, 0.50], 0.50 [0.50, 0.50] |" in text and "Text stays: " in text
    assert "glibc *o* -->0.50 to 4.00<!-- end --> in two" in text
    assert re.search(r"own -->1\.00 \[0\.\d\d, 1\.\d\d\]<!-- end -->", text)
    assert "glibc larson -->2 [2, 2]<!-- end --> s in one" in text
    assert 'glibc "[lp]*o*" -->1 to 2<!-- end --> MiB in two' in text
    assert tables("--check", path) == 0 and tables(path) == 0 and path.read_text() == text


def test_a_count_is_the_median_over_the_seeds_of_the_numa_machine(root):
    counts = ({"heap": {"remote": number}} for number in (5, 1, 3000))
    runs = [{"case": "a", "allocator": "b", "counts": one} for one in counts]
    text = "".join(json.dumps(one) + "\n" for one in [*runs, runs[0] | {"allocator": "c"}])
    (root / "data" / "n.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    path = root / "README.md"
    path.write_text("<!-- number: count data/n.jsonl.xz heap.remote a b -->old<!-- end -->")
    assert tables(path) == 0 and "-->5<!--" in path.read_text()
    for words in ("heap.remote a d", "heap.local a b", "heap.remote.far a b", "heap.remote a"):
        path.write_text(f"<!-- number: count data/n.jsonl.xz {words} -->old<!-- end -->")
        assert tables(path) == 2


def test_a_mean_may_be_relative_to_another_allocator(root):
    path = root / "README.md"
    number = "number: mean data/a.jsonl.xz time {} own {}"
    pairs = ("nearmalloc", "nearmalloc"), ("glibc", "nearmalloc")
    both = (number.format(*pair) for pair in pairs)
    path.write_text(" ".join(f"<!-- {words} -->old<!-- end -->" for words in both))
    assert tables(path) == 0
    assert re.findall(r"-->([\d.]+) \[", path.read_text()) == ["1.00", "1.00"]
    assert "-->1.00 [1.00, 1.00]<" in path.read_text()


def number(root, words: str) -> str:
    """What the directive makes of the file, in which allocators have their number of seconds."""
    path = root / "README.md"
    path.write_text(f"<!-- number: {words} -->old<!-- end -->")
    assert tables(path) == 0, words
    return path.read_text().split("-->")[1].removesuffix("<!-- end ")


def test_a_mean_may_be_over_the_cells_of_a_pattern(root):
    lines = content()
    lines[0]["cells"][0]["origin"] = "program"  # churn
    raw = make.write(root / "b.jsonl", lines).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    mean = "mean data/b.jsonl.xz {}"
    assert number(root, mean.format("time nearmalloc *o*")).startswith("1.41 [")  # 0.5 and 4
    assert number(root, mean.format("memory_kib nearmalloc larson tbb")) == "0.25 [0.25, 0.25]"
    assert number(root, mean.format("time tbb churn")).startswith("2.00 [")
    for words in ('time nearmalloc "*"', "time nearmalloc nowhere", "hours nearmalloc larson"):
        (root / "README.md").write_text(f"<!-- number: {mean.format(words)} -->old<!-- end -->")
        assert tables(root / "README.md") == 2


def of_seconds(root, seconds: dict[str, dict[str, list]], allocators: tuple[str, ...]):
    raw = make.write(root / "b.jsonl", content(seconds, names=allocators)).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()


def test_ratios_are_listed_in_the_order_of_the_plan(root):
    assert number(root, 'ratios data/a.jsonl.xz time tbb glibc "*"') == "2.00, 2.00, 2.00"
    assert number(root, 'ratios data/a.jsonl.xz time nearmalloc glibc "*o*"') == "0.50, 4.00"


def test_a_ratio_may_be_between_the_cells_of_two_patterns(root):
    seconds = {
        f"{name} t={threads}": {"a": [base * threads] * 5, "b": [1, 1, 2, 4, 4]}
        for name, base in {"one": 1, "two": 3}.items()
        for threads in (2, 4)
    }
    of_seconds(root, seconds, ("a", "b"))
    assert number(root, 'ratios data/b.jsonl.xz time a a "two t=*" "one t=*"') == "3.00, 3.00"
    assert number(root, 'ratio data/b.jsonl.xz time a b "two t=*" "one t=*"') == "3.00 to 6.00"
    path = root / "README.md"
    for words in ('"two t=*" "one t=2"', '"two t=*" "no t=*"'):
        path.write_text(f"<!-- number: ratio data/b.jsonl.xz time a a {words} -->old<!-- end -->")
        assert tables(path) == 2


def test_sums_are_those_of_the_medians_of_all_cells(root):
    cells = {f"c t={n}": {"a": [n, n, 9, 0.1, n], "b": [n * n] * 5} for n in (1, 2, 4)}
    of_seconds(root, cells, ("a", "b"))
    assert number(root, 'sums data/b.jsonl.xz seconds b a "c t=*"') == "3.00"  # 21 / 7
    for words in ('seconds a b "d"', 'hours a b "*"', 'seconds a c "*"'):
        path = root / "README.md"
        path.write_text(f"<!-- number: sums data/b.jsonl.xz {words} -->old<!-- end -->")
        assert tables(path) == 2


SIGNS = [  # the ratios in some cells, and what they say of "less", "more" and "same"
    ((0.5, 0.9, 0.3), ("yes", "no", "no")),
    ((0.5, 0.95, 1.05), ("in part", "no", "in part")),
    ((0.95, 0.93, 1.05), ("weak", "no", "yes")),
    ((0.95, 1.02, 1.05), ("no", "weak", "yes")),
    ((0.5, 0.95, 1.5), ("in part", "in part", "in part")),
    ((0.95, 0.95, 1.5), ("no", "in part", "in part")),
    ((1.1, 1.2, 3.0), ("no", "yes", "no")),
    ((1.08, 1.0, 0.93), ("no", "no", "yes")),
    ((0.95, 1.05), ("weak", "weak", "yes")),
]


SIDES = [  # the ratios of medians in some cells, and what they say of "less", "more" and "same"
    ((0.5, 0.9, 0.3), ("yes", "no", "no")),
    ((0.5, 0.95, 1.05), ("in part", "no", "in part")),
    ((0.95, 1.0, 1.05), ("no", "no", "yes")),
    ((1.2, 3.0), ("no", "yes", "no")),
    ((0.5, 3.0), ("in part", "in part", "no")),
]


@pytest.mark.parametrize(
    ("directive", "rounds", "ratios", "said"),
    [*(("sign", 5, *row) for row in SIGNS), *(("side", 2, *row) for row in SIDES)],
)
def test_a_verdict_is_what_the_ratios_say(root, directive, rounds, ratios, said):
    cells = {f"c t={i}": {"a": [one] * rounds, "b": [1] * rounds} for i, one in enumerate(ratios)}
    of_seconds(root, cells, ("a", "b"))
    for sense, word in zip(("less", "more", "same"), said, strict=True):
        assert number(root, f'{directive} data/b.jsonl.xz {sense} time a b "*"') == word


def test_a_difference_that_other_rounds_might_not_have_is_within_the_noise(root):
    of_seconds(root, {"c": {"a": [0.5, 0.6, 0.8, 1.1, 1.2], "b": [1] * 5}}, ("a", "b"))
    assert number(root, "sign data/b.jsonl.xz less time a b c") == "weak"
    assert number(root, "sign data/b.jsonl.xz same time a b c") == "no"
    of_seconds(root, {"c": {"a": [0.5] * 4, "b": [1] * 4}}, ("a", "b"))
    assert number(root, "sign data/b.jsonl.xz less time a b c") == "weak"  # too few rounds


LEVELS = [  # the runs beside 1, 1, 1...: whether their median is the same as 1
    ([0.85, 0.9, 1.02, 1.1, 1.18], "yes"),
    ([0.6, 0.9, 1.02, 1.1, 1.7], "weak"),
    ([0.6, 0.9, 1.02, 1.1, 1.18], "weak"),
    ([0.85, 0.9, 1.02, 1.1, 1.7], "weak"),
    ([1.0, 1.0, 1.0, 1.0], "weak"),  # too few rounds
    ([1.0, 1.02, 1.1, 1.11, 1.18], "no"),
]


@pytest.mark.parametrize(("runs", "sign"), LEVELS)
def test_what_might_differ_in_other_rounds_is_not_surely_the_same(root, runs, sign):
    of_seconds(root, {"c": {"a": runs, "b": [1] * len(runs)}}, ("a", "b"))
    assert number(root, "sign data/b.jsonl.xz same time a b c") == sign


def test_one_cell_that_is_surely_the_same_is_a_part_of_several(root):
    cells = {f"c t={i}": {"a": runs, "b": [1] * 5} for i, (runs, _) in enumerate(LEVELS[:2])}
    of_seconds(root, cells, ("a", "b"))
    assert number(root, 'sign data/b.jsonl.xz same time a b "*"') == "in part"


def test_cells_are_counted_whose_interval_lies_beyond_one(root):
    runs = ([2] * 5, [1.1] * 5, [0.5] * 5, [0.9, 1, 1.1, 1.2, 1.3])
    cells = {f"c t={i}": {"a": one, "b": [1] * 5} for i, one in enumerate(runs)}
    of_seconds(root, cells, ("a", "b"))
    assert number(root, 'beyond data/b.jsonl.xz time a b "*"') == "2 of 4"


def test_the_memory_of_an_empty_process_is_a_number(root):
    empty = {"kind": "empty", "allocator": "glibc", "memory_kib": [2600, 2680, 9000]}
    raw = make.write(root / "b.jsonl", [*content(), empty]).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    assert number(root, "empty data/b.jsonl.xz glibc") == "2.6"
    (root / "README.md").write_text("<!-- number: empty data/b.jsonl.xz tbb -->old<!-- end -->")
    assert tables(root / "README.md") == 2


def test_an_error_of_the_program_is_no_wrong_number_of_words(root, monkeypatch):
    monkeypatch.setitem(documents._NUMBERS, "version", lambda analysis, name: name + 1)
    text = "<!-- number: version data/a.jsonl.xz glibc -->old<!-- end -->"
    with pytest.raises(TypeError, match="str"):
        documents.filled(text, root)


def test_the_share_of_the_workloads_own_instructions_is_a_number(root):
    count = {"kind": "count", "cell": "larson", "allocator": "glibc", "harness_share": 0.704}
    raw = make.write(root / "b.jsonl", [*content(), count]).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    assert number(root, "harness data/b.jsonl.xz larson") == "70 %"
    (root / "README.md").write_text("<!-- number: harness data/b.jsonl.xz phong -->old<!-- end -->")
    assert tables(root / "README.md") == 2


def test_the_instructions_of_a_cell_are_a_number(root):
    count = {"kind": "instructions", "cell": "larson", "allocator": "tbb"}
    count["instructions"] = 2413914436
    raw = make.write(root / "b.jsonl", [*content(), count]).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    assert number(root, "instructions data/b.jsonl.xz tbb larson") == "2.41 x 10^9"
    for words in ("glibc larson", "tbb phong"):
        path = root / "README.md"
        path.write_text(f"<!-- number: instructions data/b.jsonl.xz {words} -->old<!-- end -->")
        assert tables(path) == 2


def test_a_document_names_the_machine_and_the_versions(root):
    lines = content()
    lines[0] |= {"date": "2026-11-26T10:00:00+00:00", "commit": "0123456789"}
    lines[0]["allocators"][1]["version"] = "2.36"
    lines[0]["allocators"][2]["version"] = ""
    lines[2]["round"] = 0  # a warm-up
    lines[1]["disturbed"] = "3 other tasks ran on 2 processors"
    raw = make.write(root / "b.jsonl", lines).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    told = (
        "A Processor, 2 processors, 8.0 GiB, Linux 6.1.0, glibc 2.36, transparent huge pages "
        "madvise; 5 rounds on 2026-11-26, commit 0123456; other work disturbed 1 of 44 runs"
    )
    assert number(root, "machine data/b.jsonl.xz") == told
    lines[0]["commit"] += "-dirty"
    raw = make.write(root / "b.jsonl", lines).read_bytes()
    (root / "data" / "b.jsonl.xz").write_bytes(lzma.compress(raw))
    documents._analysis.cache_clear()
    changed = told.replace("0123456;", "0123456 with changes;")
    assert number(root, "machine data/b.jsonl.xz") == changed
    assert number(root, "version data/b.jsonl.xz glibc") == "2.36"
    for name in ("tbb", "nobody"):
        (root / "README.md").write_text(
            f"<!-- number: version data/b.jsonl.xz {name} -->old<!-- end -->"
        )
        assert tables(root / "README.md") == 2


@pytest.mark.parametrize(
    "words",
    [
        *("table: totals data/a.jsonl.xz", "table: means data/gone.jsonl.xz", "table: means"),
        "table: counts data/a.jsonl.xz",
        *("number: mean data/a.jsonl.xz time", "number: share data/a.jsonl.xz"),
        *("number: ratio data/a.jsonl.xz time nearmalloc", "number: ratios data/a.jsonl.xz time"),
        "number: ratio data/a.jsonl.xz time nearmalloc glibc larson larson larson",
        "number: ratio data/a.jsonl.xz time nearmalloc glibc nowhere",
        "number: sign data/a.jsonl.xz below time nearmalloc glibc larson",
        "number: sign data/a.jsonl.xz less time nearmalloc glibc",
        "number: side data/a.jsonl.xz below time nearmalloc glibc larson",
        'number: value data/a.jsonl.xz seconds glibc "larson',
        "number: value data/a.jsonl.xz hours glibc larson",
    ],
)
def test_what_cannot_be_made_is_an_error(root, words):
    path = root / "README.md"
    table = words.startswith("table")
    path.write_text(f"<!-- {words} -->" + ("\n<!-- end of table -->" if table else "<!-- end -->"))
    assert tables(path) == 2


def test_the_tables_of_the_documents_are_those_of_their_data():
    paths = [_README, _DESIGNS, *sorted((places.ROOT / "docs").rglob("*.md"))]
    assert len(paths) > 10
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert documents.filled(text, places.ROOT) == text, path


@pytest.mark.parametrize(
    "name",
    ["README.md", "docs/benchmarks.md", "docs/claims.md", "docs/limits.md", "docs/numa.md"],
)
def test_figures_of_the_lab_have_raw_data_or_the_document_says_that_they_have_none(name):
    text = " ".join((places.ROOT / name).read_text(encoding="utf-8").split())
    assert re.search("<!-- (table|number): ", text) or "their raw data were not kept" in text


_MARKED = re.compile("<!-- number: .*?<!-- end -->")
# What a measured number looks like: 0.52, 1,031,000, 8 %, 26 times, 4.2x, 16 us.
_MEASURED = re.compile(r"\d\.\d|\d,\d{3}|\d+ (%|times|us|ns|ms|s|MiB|GiB)\b|\d+ %|\d+x\b")
# Keys, updates and the rule of the signs.
_GIVEN = re.compile(
    r"\d(\.\d)? x 10\^\d|(more than|within)\s9 %|within 19 %|intervals\s+of 95 %"
    "|batches of 4,096|in 1,000 operations|50 % insertions"
)


# What has a digit and was not measured: names, units of a rule, and what an interval excludes.
_NAMED = re.compile(
    r"95 % intervals?|under 4 MiB|(in|ex)cludes 1\b|mimalloc ?[23]|shbench 8|pbzip2|Debian 12"
    "|blocks of 20 to 200 KB|sizes in 3 MB|`[^`]*`|\\]\\([^)]*\\)|[Bb]elow 1 is better"
    '|320 MiB of blocks|frees 95 % of|"[Ss]oon" is after 6 s|"long" after 20 s'
)
_README = places.ROOT / "README.md"
_DESIGNS = places.ROOT / "designs" / "README.md"


_BENCHMARKS = places.ROOT / "docs" / "benchmarks.md"


def section(document: Path, title: str) -> str:
    text = document.read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def how_it_stands() -> str:
    titles = ("How it stands", "How to read it", "Where it loses")
    return "\n".join(section(_BENCHMARKS, title) for title in titles)


def readme_after_a_peak() -> str:
    return section(_README, "Memory after a peak")


def readme_real_programs() -> str:
    return section(_README, "Real programs")


def limits_beside_others() -> str:
    """What stands before the table; what follows it says that it has no raw data."""
    text = (places.ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    section = text.partition("\n## The allocator: time and memory against others\n")[2]
    return section.partition("<!-- table")[0]


@pytest.mark.parametrize(
    "part", [how_it_stands, limits_beside_others, readme_after_a_peak, readme_real_programs]
)
def test_each_number_about_the_means_comes_from_raw_data(part):
    text = part()
    assert len(text) > 300
    prose = re.sub("<!-- table: .*?<!-- end of table -->", "", text, flags=re.DOTALL)
    prose = re.sub("```.*?```", "", prose, flags=re.DOTALL)
    prose = " ".join(_MARKED.sub("", prose).split())
    assert re.search(r"[^.]{0,40}\d.{0,20}", _NAMED.sub("", prose)) is None


@pytest.fixture(scope="module")
def of_readme() -> Analysis:
    return Analysis(record.read(places.ROOT / "docs" / "data" / "readme.jsonl.xz"), "nearmalloc")


def test_benchmarks_name_the_cells_that_count_for_memory_alone(of_readme):
    sentences = " ".join(how_it_stands().split()).split(". ")
    (told,) = (one for one in sentences if "count for memory alone" in one)
    cells = {cell.name for cell in of_readme.record.cells}
    silent = cells - set(of_readme.usable(TIME))
    assert {name for name in cells if name in told} == silent
    assert told.startswith({2: "Two", 3: "Three", 4: "Four"}[len(silent)])


def test_benchmarks_and_readme_have_the_tables_of_the_data():
    assert "<!-- table: means docs/data/readme.jsonl.xz -->" in how_it_stands()
    assert "<!-- table: losses docs/data/readme.jsonl.xz -->" in how_it_stands()
    assert "<!-- table: allocators docs/data/after-peak.jsonl.xz " in readme_after_a_peak()
    programs = readme_real_programs().partition("<!-- table: beside ")[2]
    rows = programs.partition("<!-- end")[0].splitlines()
    assert len(rows) == 3 + 8


def words_of(svg: str) -> list[str]:
    """Words and numbers of the picture; the places depend on the fonts."""
    return re.findall('aria-label="([^"]*)"', svg) + re.findall("<text[^>]*>([^<]*)</text>", svg)


def test_the_picture_of_readme_is_that_of_its_data(tmp_path):
    data = places.ROOT / "docs" / "data" / "after-peak.jsonl.xz"
    drawn = tmp_path / "drawn.svg"
    draw_figure(data, "after-peak", drawn)
    name = re.search(r"\(docs/(after-peak\.svg)\)", readme_after_a_peak())[1]
    kept = (places.ROOT / "docs" / name).read_text(encoding="utf-8")
    words = words_of(kept)
    assert words == words_of(drawn.read_text(encoding="utf-8"))
    assert sum("allocator: " in one for one in words) >= 6


def test_readme_is_short():
    text = _README.read_text(encoding="utf-8")
    shown = re.sub("<!--.*?-->", "", text, flags=re.DOTALL)
    words = [word for word in shown.split() if re.search(r"\w", word)]  # and no bar of a table
    assert len(text.splitlines()) <= 120 and len(words) <= 900


def claims() -> tuple[list[list[str]], str]:
    """The rows of docs/claims.md, and its other text."""
    text = (places.ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    rows = [[one.strip() for one in line.strip("|").split("|")] for line in lines if "|" in line]
    kept = [row for row in rows if row[0] != "claim" and set(row[0]) != {"-"}]
    return kept, "\n".join(line for line in lines if "|" not in line)


def test_each_number_that_a_claim_has_here_comes_from_raw_data():
    rows, prose = claims()
    assert len(rows) > 110
    for claim, _, here, sign, _ in rows:
        found = _MEASURED.search(_GIVEN.sub("", _MARKED.sub("", here + " " + sign)))
        assert found is None, (claim, found)
        assert _MARKED.search(here) or sign.startswith("not measured: "), claim
    found = _MEASURED.search(_GIVEN.sub("", _MARKED.sub("", prose)))
    assert found is None, found


def test_each_sign_of_a_claim_about_time_is_made_from_ratios_that_its_row_has():
    rows, _ = claims()
    signs = 0
    for claim, _, here, sign, _ in rows:
        for words in re.findall("<!-- number: sign (.*?) -->", sign):
            file, _, metric, above, below, *cells = shlex.split(words)
            ratios = re.findall(f"<!-- number: ratios? {file} {metric} (.*?) -->", here)
            compared = {frozenset(shlex.split(one)[:2]) for one in ratios}
            assert cells
            assert {above, below} in compared, claim
            signs += 1
        assert "times.jsonl.xz time " not in here or not sign or "-->" in sign, claim
    assert signs > 120


def test_each_verdict_on_memory_or_counts_is_made_from_numbers_that_its_row_has():
    sides = 0
    for claim, _, here, sign, _ in claims()[0]:
        for words in re.findall("<!-- number: side (.*?) -->", sign):
            file, _, metric, above, *_ = shlex.split(words)
            of_it = f"<!-- number: \\w+ {file} {metric} {re.escape(above)} "
            assert re.search(of_it, here), claim
            sides += 1
    assert sides > 50


# Judged by hand: counts of the NUMA machine, sums, and shares that are no ratio of two runs.
_BY_HAND = re.compile(
    "figure 4: 9 times|table 1|§4.2: glibc takes|freeing a batch|§3.4: over 90 %"
    "|§3.4: naive Token EBR spends|76 % of test 2|profiles: 2.41"
)


def test_no_other_verdict_is_written_by_hand():
    for claim, _, _, sign, _ in claims()[0]:
        plain = _MARKED.sub("", sign)
        judged = re.search(r"\b(yes|in part|weak|no)\b", plain)
        excused = plain.startswith("not measured: ") or _BY_HAND.match(claim)
        assert judged is None or excused, (claim, plain)


def commands_of_data() -> dict[str, str]:
    """What docs/data/README.md says made each file."""
    text = (places.ROOT / "docs" / "data" / "README.md").read_text(encoding="utf-8")
    row = r"^\| `(\S+\.jsonl\.xz)` \|[^|]*\| `([^`|]*)` \|"
    return dict(re.findall(row, text, re.MULTILINE))


def test_each_row_of_a_claim_names_its_raw_data_and_their_commands():
    made = commands_of_data()
    named = 0
    for claim, _, here, sign, data in claims()[0]:
        files = dict.fromkeys(re.findall(r"<!-- number: \w+ docs/data/(\S+)", here + sign))
        told = ", ".join(
            f"[{Path(file).name.removesuffix('.jsonl.xz')}](data/{file}): `{made[file]}`"
            for file in files
        )
        assert data == (told or "–"), claim
        named += len(files)
    assert named > 110


def test_the_command_of_raw_data_runs_the_cells_that_are_in_it():
    tested = 0
    for file, command in commands_of_data().items():
        words = shlex.split(command)
        if "--only" not in words:
            continue
        wanted = words[words.index("--only") + 1]
        plan = plans.load(plans.find(words[words.index("run") + 1]))
        runs = fnmatch.filter([cell.name for cell in of_plan(plan)], wanted)
        kept = [cell.name for cell in record.read(places.ROOT / "docs" / "data" / file).cells]
        assert set(kept) <= set(runs), (file, command)
        tested += 1
    assert tested > 25


def test_the_share_of_freeing_has_the_sign_that_its_row_says():
    """It is no ratio of two runs: the threads stop, as there, if it is over half."""
    row = next(row for row in claims()[0] if row[0].startswith("freeing a batch stops"))
    share = float(re.search(r"-->([\d.]+)", row[2])[1])
    assert row[3] == ("yes" if share > 0.5 else "no")


def of_machine(file: Path) -> tuple[str, str]:
    """The name that docs/data/README.md has for a file of the many-core machine, and what the
    documents say where they use it."""
    kind, _, which = file.stem.partition("-")
    if kind == "goals":
        return "goals-COMMIT.csv", f"the commit {which}"
    if kind == "documents":
        return "documents-PLAN.csv", f"manycore `{which}`"
    return file.name, f"(data/manycore/{file.name})"


def test_each_file_of_raw_data_is_described_and_used():
    data = places.ROOT / "docs" / "data"
    documents_ = [_README, _DESIGNS, *(places.ROOT / "docs").glob("*.md")]
    text = " ".join("".join(path.read_text(encoding="utf-8") for path in documents_).split())
    described = (data / "README.md").read_text(encoding="utf-8")
    files = [path for path in sorted(data.rglob("*.*")) if path.name != "README.md"]
    assert len([path for path in files if path.suffix == ".csv"]) > 5 and len(files) > 25
    for file in files:
        if file.parent.name == "manycore":
            name, use = of_machine(file)
            assert f"`manycore/{name}`" in described and use in text, file
        else:
            assert file.suffix == ".xz" and f" docs/data/{file.relative_to(data)} " in text, file
            assert f"| `{file.relative_to(data)}` |" in described, file
