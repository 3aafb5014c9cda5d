"""What the recorder wrote is read, drawn and traced exactly; a broken file is an error of one line.

The files are made here, byte by byte as docs/timeline.md says, and by the example of that document.
"""

import itertools
import json
import re
import struct
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nearlab import places
from nearlab.commands import application
from nearlab.timeline import analysis as timeline_analysis
from nearlab.timeline import command as timeline
from nearlab.timeline import figure as timeline_figure
from nearlab.timeline.file import INTERVAL, POINT, SAMPLE, TimelineError, read

START = 5_000_000_000
MS = 1_000_000
KINDS = ("free_batch", "epoch_change", "unreclaimed", "range_query", "other", "mine")
FREE, EPOCH, WAITING, QUERY, _, MINE = range(6)


def event(shape, kind, begin, end=None, value=0, count=0) -> bytes:
    length = 0 if end is None else end - begin
    first = (START + begin) % 2**56 << 8 | kind << 2 | shape
    return struct.pack("<QQQ", first, value << 16 | length >> 32, length % 2**32 << 32 | count)


def row(*events: bytes, name="worker", left=0, dropped=0, joined=0) -> bytes:
    left = START + left if left else 0
    head = struct.pack("<32sQQQQQ", name.encode(), 7, START + joined, left, dropped, len(events))
    return head + b"".join(events)


def content(*rows: bytes, version=1, threads=None, without_row=0) -> bytes:
    counts = (START + 10**9, 1000, threads or len(rows), without_row, len(rows), 4711)
    head = struct.pack("<8sIIQQQQQQII", b"neartime", version, 64, START, 1, *counts)
    names = b"".join(name.encode().ljust(32, b"\0") for name in KINDS)
    return head + names.ljust(64 * 32, b"\0") + b"".join(rows)


@pytest.fixture
def make(tmp_path):
    def write(*rows: bytes, **keys):
        path = tmp_path / "made.timeline"
        path.write_bytes(content(*rows, **keys))
        return path

    return write


@pytest.fixture
def two(make):
    """Two threads for 10 ms: one frees for 5 ms; the other, which joined at 5 ms, for 1."""
    return make(
        row(
            event(POINT, EPOCH, 0, value=2),
            event(INTERVAL, FREE, 1 * MS, 6 * MS, value=2, count=300),
            event(SAMPLE, WAITING, 7 * MS, value=100, count=2),
            event(SAMPLE, WAITING, 8 * MS, value=300, count=2),
            event(INTERVAL, QUERY, 8 * MS, 10 * MS, value=1),
            name="a & <b>",
        ),
        row(
            event(INTERVAL, FREE, 5 * MS, 6 * MS, value=4, count=9),
            event(POINT, EPOCH, 6 * MS, value=4),
            event(SAMPLE, WAITING, 7 * MS, value=50, count=2),
            event(SAMPLE, WAITING, 7 * MS, value=1000, count=4),
            joined=5 * MS,
        ),
    )


@pytest.fixture(scope="module")
def example():
    """The example of docs/timeline.md, which the tests' build makes."""
    return places.lab_build().parent / "tests" / "programs" / "timeline_example"


@pytest.fixture(scope="module")
def recorded(example, tmp_path_factory):
    path = tmp_path_factory.mktemp("example") / "run.timeline"
    subprocess.run([example, "--timeline", path], check=True, capture_output=True)
    return path


times = st.integers(-(2**40), 2**54)


@given(
    shape=st.sampled_from((INTERVAL, POINT, SAMPLE)),
    kind=st.sampled_from(range(6)),
    begin=times,
    length=st.integers(0, 2**48 - 1),
    value=st.integers(0, 2**48 - 1),
    count=st.integers(0, 2**32 - 1),
)
def test_every_field_is_read(tmp_path_factory, shape, kind, begin, length, value, count):
    path = tmp_path_factory.getbasetemp() / "one.timeline"
    path.write_bytes(content(row(event(shape, kind, begin, begin + length, value, count))))
    found = read(path).rows[0].events
    columns = [int(getattr(found, name)[0]) for name in found.__slots__]
    assert columns == [begin, length, kind, shape, value, count]


def test_the_example_is_read_as_it_ran(recorded):
    found = read(recorded)
    assert sorted(each.name for each in found.rows) == ["first", "second", "third"]
    assert found.dropped == 0 and found.events == 3 * 200 * 3 and found.threads == 3
    for each in found.rows:
        batches = each.events.of(INTERVAL, FREE)
        assert batches.value.tolist() == list(range(200)) and set(batches.count) == {2000}
        assert (batches.begin[1:] >= batches.end[:-1]).all()
        assert each.joined <= each.events.begin[0] and each.events.end[-1] <= each.left


def test_the_share_of_time_is_that_of_the_threads(two):
    found = read(two)
    whole = timeline_analysis.window(found)
    assert (whole.begin, whole.end) == (0, 10 * MS)
    assert timeline_analysis.share_of_time(found, FREE, whole) == 6 / 15
    part = timeline_analysis.window(found, 5.5, 7.5)
    assert timeline_analysis.share_of_time(found, FREE, part) == 1 / 4


def test_times_begin_where_measuring_does(make):
    measured = KINDS.index("mine")
    path = make(
        row(event(INTERVAL, FREE, 1 * MS, 6 * MS), left=9 * MS, joined=1 * MS),
        row(event(INTERVAL, measured, 2 * MS, 8 * MS), name="measured"),
    )
    assert read(path).measured is None and len(read(path).rows) == 2
    path.write_bytes(
        path.read_bytes().replace(b"mine".ljust(32, b"\0"), b"measured".ljust(32, b"\0"))
    )
    found = read(path)
    (one,) = found.rows
    assert (one.joined, one.left) == (-1 * MS, 7 * MS) and found.threads == 1
    assert int(one.events.begin[0]) == -1 * MS and found.measured == 6 * MS
    whole = timeline_analysis.window(found)
    assert (whole.begin, whole.end) == (0, 6 * MS)
    assert timeline_analysis.share_of_time(found, FREE, whole) == 4 / 6
    part = timeline_analysis.window(found, from_ms=-1)
    assert (part.begin, part.end) == (-1 * MS, 6 * MS)


def test_a_full_row_says_nothing_of_what_came_after(make):
    path = make(
        row(event(INTERVAL, FREE, 0, 2 * MS), dropped=5),
        row(event(INTERVAL, FREE, 0, 1 * MS), left=4 * MS),
        row(event(POINT, EPOCH, 10 * MS)),
    )
    found = read(path)
    assert timeline_analysis.share_of_time(found, FREE, timeline_analysis.window(found)) == 3 / 16


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
def test_what_intervals_cover_counts_once(tmp_path_factory, spans):
    path = tmp_path_factory.getbasetemp() / "covered.timeline"
    path.write_bytes(content(row(*(event(INTERVAL, FREE, a, a + n) for a, n in spans))))
    inside = {at for a, n in spans for at in range(a, a + n) if 10 <= at < 40}
    part = timeline_analysis.Window(10, 40)
    assert timeline_analysis.covered(read(path).rows[0].events, part) == len(inside)


def test_garbage_is_the_mean_of_threads_by_epoch(two):
    found = read(two)
    epochs, objects = timeline_analysis.unreclaimed(found, timeline_analysis.window(found))
    assert epochs.tolist() == [2, 4] and objects.tolist() == [(200 + 50) / 2, 1000]


def run(*words, status=0):
    done = CliRunner().invoke(application(), ["timeline", *map(str, words)])
    assert done.exit_code == status, done.output
    return done.output


def test_a_figure_says_what_it_shows(two, tmp_path):
    run(two, "-o", tmp_path / "f.svg", "--title", "Two threads")
    text = (tmp_path / "f.svg").read_text()
    for said in ("Two threads", "40 % of the threads' time freeing", "0 events dropped"):
        assert said in text
    for said in ("a &amp; &lt;b&gt;", "unreclaimed objects", "the thread changed the epoch"):
        assert said in text
    for colour in timeline_figure.COLOURS[:2]:  # two epochs, whose numbers differ by two
        assert colour in text
    assert timeline_figure.COLOURS[2] not in text


def test_the_same_timeline_gives_the_same_figure(two, tmp_path):
    run(two, "-o", tmp_path / "f.svg")
    run(two, "-o", tmp_path / "g.svg")
    assert (tmp_path / "f.svg").read_bytes() == (tmp_path / "g.svg").read_bytes()


def test_figures_of_other_kinds_parts_and_forms(two, recorded, tmp_path):
    target = tmp_path / "f.png"
    assert str(target) in run(recorded, "-o", target, "--from", 1, "--to", 5, "--scale", "log")
    assert target.read_bytes().startswith(b"\x89PNG")
    run(two, "--kind", "range_query")
    assert "in range_query" in two.with_name("made.timeline.svg").read_text()
    timeline.draw(two, tmp_path / "by-name.svg", "A title")
    assert "A title" in (tmp_path / "by-name.svg").read_text()


def test_lost_events_are_said(make, tmp_path):
    path = make(row(event(INTERVAL, FREE, 0, MS), dropped=1234), threads=9, without_row=1)
    assert "1,235 dropped" in run(path, "-o", tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text()
    assert "1,235 events dropped" in text and "8 threads had no row" in text
    assert "worker (1,234 dropped)" in text


def test_an_empty_timeline_has_a_figure_too(make, tmp_path):
    for number, rows in enumerate(([], [row()], [row(event(POINT, MINE, 5))])):
        run(make(*rows), "-o", tmp_path / f"{number}.svg")
        run(make(*rows), "-o", tmp_path / f"{number}.json")


def test_short_boxes_are_drawn_together(make, tmp_path):
    """A thousand of 100 ns in 100 ms, ten in a pixel: each such pixel is drawn, faintly."""
    begins = range(10 * MS, 16 * MS, 6000)
    short = [event(INTERVAL, FREE, begin, begin + 100) for begin in begins]
    long = event(INTERVAL, FREE, 50 * MS, 90 * MS, value=1)
    path = make(row(long, event(POINT, EPOCH, 100 * MS), *short))
    found = read(path)
    part = timeline_analysis.window(found)
    boxes, merged = timeline_figure._boxes(
        found.rows[0].events.of(INTERVAL, FREE), np.array([0, 1]), part, 62_500.0
    )
    assert merged == 1000 and len(boxes.begin) == 96 + 1
    assert (boxes.shade[:-1] < 0.25).all() and (boxes.shade[:-1] > 0).all()
    assert boxes.shade[-1] == 1 and boxes.colour.tolist() == [0] * 96 + [1]
    run(path, "-o", tmp_path / "f.svg")
    assert "1,000 of 1,001 boxes are shorter than a pixel" in (tmp_path / "f.svg").read_text()


_BLIND = {  # Machado and others, 2009, severity 1: protan, deutan, tritan
    "none": np.eye(3),
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _lab(linear) -> np.ndarray:
    scaled = _TO_XYZ @ np.clip(linear, 0, 1) / (0.9505, 1, 1.089)
    f = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("sight", _BLIND)
def test_neighbouring_epochs_look_different(sight):
    seen = [np.array(_BLIND[sight]) @ _linear(colour) for colour in timeline_figure.COLOURS]
    for first, second in itertools.pairwise([*seen, seen[0]]):
        assert np.linalg.norm(_lab(first) - _lab(second)) > 38
    for colour in timeline_figure.COLOURS:
        assert 1.05 / (_TO_XYZ[1] @ _linear(colour) + 0.05) >= 3  # the contrast with white


def trace_of(path, *options) -> dict:
    target = path.with_suffix(".json")
    run(path, "-o", target, *options)
    return json.loads(target.read_text())


def test_a_trace_has_every_event_once(two):
    trace = trace_of(two)
    by_phase = {}
    for each in trace["traceEvents"]:
        by_phase.setdefault(each["ph"], []).append(each)
    assert {phase: len(found) for phase, found in by_phase.items()} == {
        "M": 1 + 2 * 2, "X": 3, "i": 2, "C": 4,
    }  # fmt: skip
    assert by_phase["X"][0] == {
        "ph": "X", "name": "free_batch", "ts": 1000.0, "dur": 5000.0, "pid": 4711, "tid": 1,
        "args": {"epoch": 2, "objects": 300},
    }  # fmt: skip
    names = [each["args"]["name"] for each in by_phase["M"] if each["name"] == "thread_name"]
    assert names == ["a & <b>", "worker"]
    assert by_phase["C"][0]["name"] == "unreclaimed, a & <b>"
    assert by_phase["C"][0]["args"] == {"objects": 100}


# The entries that Chrome's trace format requires for each kind of event.
_REQUIRED = {
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "X": {"name": str, "ts": float, "dur": float, "pid": int, "tid": int, "args": dict},
    "i": {"name": str, "ts": float, "s": str, "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "ts": float, "pid": int, "tid": int, "args": dict},
}


def test_a_trace_is_in_chromes_format(recorded):
    trace = trace_of(recorded)
    assert list(trace) == ["traceEvents", "otherData"]
    assert trace["otherData"] == {
        "recorded_by": "nearmalloc timeline", "dropped_events": 0, "threads_without_row": 0,
    }  # fmt: skip
    rows = read(recorded).rows
    for each in trace["traceEvents"]:
        required = _REQUIRED[each["ph"]]
        assert each.keys() == required.keys() | {"ph"}
        assert all(isinstance(each[key], kind) for key, kind in required.items()), each
        assert 0 <= each["tid"] <= len(rows)
    begins = [each["ts"] for each in trace["traceEvents"] if each["ph"] == "X" and each["tid"] == 1]
    exact = rows[0].events.of(INTERVAL, FREE).begin
    assert [round(1000 * begin) for begin in begins] == exact.tolist()  # to the nanosecond


def test_a_part_of_a_trace(two):
    events = trace_of(two, "--from", 5.5, "--to", 6.5)["traceEvents"]
    assert sorted(each["ph"] for each in events if each["ph"] != "M") == ["X", "X", "i"]


def test_times_before_the_start_keep_their_sign(make):
    found = trace_of(make(row(event(POINT, MINE, -1500))))["traceEvents"]
    assert [each["ts"] for each in found if each["ph"] == "i"] == [-1.5]


GOOD = content(row(event(INTERVAL, FREE, 0, MS)))


@pytest.mark.parametrize(
    "data,said",
    [
        (b"", "is no timeline"),
        (b"\x7fELF" * 100, "is no timeline"),
        (GOOD[:30], "cut short"),
        (GOOD[:500], "cut short"),
        (GOOD[:-1], "cut short"),
        (GOOD + b"x", "1 bytes too many"),
        (content(version=2), "version 2"),
        (content(row(struct.pack("<QQQ", 3, 0, 0))), "unknown kind in row 0"),
    ],
)
def test_a_broken_file_is_an_error_of_one_line(tmp_path, data, said):
    path = tmp_path / "broken"
    path.write_bytes(data)
    output = run(path, status=2)
    assert output.startswith("nearlab: ") and said in output and output.count("\n") == 1


@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_no_damage_is_worse_than_an_error(tmp_path_factory, length, place, byte):
    damaged = bytearray(GOOD)
    damaged[place] = byte
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged[:length])
    try:
        read(path)
    except TimelineError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "words,said",
    [
        (["-o", "f.pdf"], "must end with"),
        (["-o", "/nowhere/f.svg"], "No such file"),
        (["--from", 7, "--to", 3], "nothing lies between 7 and 3 ms"),
        (["--kind", "mine"], "no interval `mine`, but free_batch, range_query"),
        (["--scale", "cubic"], "unknown scale"),
    ],
)
def test_a_wrong_request_is_an_error_of_one_line(two, words, said):
    output = run(two, *words, status=2)
    assert output.startswith("nearlab: ") and said in output and output.count("\n") == 1
    assert "No such file" in run(two.with_name("gone"), status=2)


def test_the_cost_of_recording_is_measured(example):
    done = CliRunner().invoke(application(), ["timeline-cost", "--pairs", "5", str(example)])
    assert done.exit_code == 0, done.output
    assert "recording 1,800 events, 5 pairs" in done.output
    assert re.search(r"^time: [+-][\d.]+ % \[.*\]\nCPU time: [+-][\d.]+ % \[", done.output, re.M)


@pytest.mark.parametrize(
    "command,said",
    [("false", "status 1"), ("true", "no line of JSON"), ("/nowhere", "cannot run")],
)
def test_a_program_that_cannot_be_measured_is_an_error(command, said):
    done = CliRunner().invoke(application(), ["timeline-cost", command])
    assert done.exit_code == 2 and said in done.output and done.output.count("\n") == 1
