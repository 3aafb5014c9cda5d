"""Progress: the time left, from an estimate and from the rate; what is printed off a terminal."""

import os
import pty
import re
import select
import sys
import time

import pytest

from neardriver import ninja_log
from neardriver.messages import clock_time
from neardriver.progress import Step, time_left


@pytest.mark.parametrize(
    "expected,elapsed,done,total,left",
    [
        (100, 0, 0, 50, 100),
        (100, 30, 0, 50, 70),
        (100, 500, 0, 50, 1),  # an estimate that was too low
        (100, 50, 25, 50, 50),
        (100, 100, 25, 50, 75),  # the rate so far counts half
        (100, 200, 50, 50, 1),
        (0, 0, 0, 0, 1),
    ],
)
def test_the_time_left(expected, elapsed, done, total, left):
    assert time_left(expected, elapsed, done, total) == pytest.approx(left)


def test_the_time_left_is_never_zero():
    for done in range(101):
        for elapsed in (0, 0.001, 5, 10_000):
            left = time_left(3, elapsed, done, 100)
            assert left >= 1 and clock_time(left) != "0:00"


def test_minutes_and_seconds():
    assert [clock_time(seconds) for seconds in (1, 59.6, 61, 3723)] == ["0:01", "1:00", "1:01",
                                                                       "62:03"]


def test_off_a_terminal_a_step_has_a_line_at_its_begin_and_one_at_its_end(capsys):
    with Step("building x") as step:
        for done in range(5):
            step.start(9).update(done, 5)
    assert capsys.readouterr().err == "near: building x\nnear: building x: done after 0 s\n"


def test_a_step_that_never_starts_prints_nothing(capsys):
    with Step("building x"):
        pass
    assert capsys.readouterr().err == ""


def test_a_step_that_fails_says_so(capsys):
    with pytest.raises(KeyError), Step("building x").start():
        raise KeyError
    assert capsys.readouterr().err.endswith("near: building x: failed after 0 s\n")


def test_on_a_terminal_one_line_is_updated_and_erased(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Step("building x") as step:
            step.start(90).update(3, 7)
            time.sleep(0.1)
        terminal.flush()
        printed = ""
        while select.select([ours], [], [], 0.2)[0]:
            printed += os.read(ours, 10_000).decode()
    os.close(ours)
    assert "near: building x" in printed and "left" in printed and "\n" not in printed
    assert printed.endswith("\r\033[K")
    step.update(3, 7)
    assert re.fullmatch(r"near: building x 3/7, about 0:\d\d left", step.line())


def test_the_history_of_ninja_gives_the_mean_of_its_steps(tmp_path):
    rows = [f"{start}\t{start + 2000}\t0\tout{start}\tffff" for start in range(30)]
    rows.append("0\t32000\t0\tout29\tffff")  # this one was built again, and took 32 s
    (tmp_path / ".ninja_log").write_text("# ninja log v5\n" + "\n".join(rows) + "\n")
    assert ninja_log.seconds_per_step(tmp_path) == pytest.approx((29 * 2 + 32) / 30)


def test_without_a_history_of_some_length_there_is_no_mean(tmp_path):
    assert ninja_log.seconds_per_step(tmp_path) is None
    (tmp_path / ".ninja_log").write_text("# ninja log v5\n1\t2\t0\tx\tf\nnonsense\n")
    assert ninja_log.seconds_per_step(tmp_path) is None
