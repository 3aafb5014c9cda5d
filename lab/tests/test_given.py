"""A plan describes any program: a command or a server, its inputs, its answer and its score."""

import hashlib
import json
import sys

import pytest
import typer

from nearlab import peers, places
from nearlab.peers import Allocator
from nearlab.plan import cells, plan
from nearlab.plan.plan import PlanError
from nearlab.results import journal
from nearlab.runs import busy, driver, one, probe
from nearlab.runs import command as run
from nearlab.runs.command import Choice

GLIBC = Allocator("glibc", "glibc", None, "2")
HEAD = 'name = "mine"\nrounds = 1\nwarm_up = 0\nallocators = ["glibc"]\n'
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"pages: 12.5")
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
CLIENT = (
    "import urllib.request, sys;"
    "print(urllib.request.urlopen(f'http://127.0.0.1:{sys.argv[1]}/').read().decode())"
)


@pytest.fixture(autouse=True)
def quickly(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_LAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(driver, "touch_memory", lambda: None)
    monkeypatch.setattr(probe, "take", lambda: 0.01)
    monkeypatch.setattr(busy, "disturbance", lambda *_: None)
    monkeypatch.setattr(peers, "ensure", lambda names: [GLIBC])


def table(**keys) -> str:
    return "[[program]]\n" + "".join(f"{key} = {json.dumps(v)}\n" for key, v in keys.items())


def measured(text: str, rounds: int = 1) -> list[dict]:
    chosen = plan.parse(HEAD + text, "mine.toml")
    with run.prepared(chosen, Choice(rounds=rounds)) as one_driver:
        with one_driver.start(places.plan_results()) as lines:
            one_driver.run(lines)
        return journal.read(lines.path)


def runs(records: list[dict]) -> list[dict]:
    return [record for record in records if record["kind"] == "run"]


def test_a_command_with_inputs_is_a_row(monkeypatch):
    monkeypatch.setenv("MANY", "300")
    text = table(
        name="sorted",
        inputs=[["sh", "-c", "seq $$(($MANY + 5)) > numbers"]],
        argv=["sort", "-rn", "{inputs}/numbers", "-o", "{folder}/out"],
        answer="file:{folder}/out",
        tree=True,
    )
    records = measured(text, rounds=2)
    first, second = runs(records)
    assert first["failure"] is second["failure"] is None
    assert first["result"]["checksum"] == second["result"]["checksum"] != ""
    assert records[0]["cells"][0]["origin"] == "program"
    assert first["metrics"]["seconds"] == pytest.approx(first["sample"]["wall_s"])


@pytest.mark.parametrize(
    "score,unit,seconds",
    [(r"took ([\d.]+) s", "seconds", 2.5), (r"([\d,]+) per s", "per second", 1 / 4000)],
)
def test_the_score_is_a_number_in_the_output(score, unit, seconds):
    text = table(name="told", argv=["echo", "took 2.5 s, 4,000 per s"], score=score, unit=unit)
    assert runs(measured(text))[0]["metrics"]["seconds"] == pytest.approx(seconds)


def test_the_score_may_be_processor_time_and_a_missing_number_is_a_failure():
    (slept,) = runs(measured(table(name="sleeper", argv=["sleep", "0.2"], score="cpu")))
    assert slept["metrics"]["seconds"] < 0.1 < slept["metrics"]["wall_s"]
    (silent,) = runs(measured(table(name="silent", argv=["echo", "x"], score="took (.*) s")))
    assert silent["failure"] == "the output has no such number"


def test_sizes_are_those_of_the_preset_and_an_answer_may_be_some_lines():
    argv = ["sh", "-c", "echo is {n}; echo $$$$"]
    text = table(name="sized", argv=argv, answer="lines:is .*") + "sizes = { n = [3, 70] }\n"
    (small,) = runs(measured('preset = "two-cores"\n' + text))
    (large,) = runs(measured('preset = "paper"\n' + text))
    digests = [hashlib.sha256(f"is {n}".encode()).hexdigest()[:16] for n in (3, 70)]
    assert [one["result"]["checksum"] for one in (small, large)] == digests


def test_answers_that_differ_fail_unless_none_is_asked_for():
    argv = [sys.executable, "-c", "import os; print(os.getpid())"]
    first, second = runs(measured(table(name="moody", argv=argv), rounds=2))
    assert "checksum" in (first["failure"] or "") + (second["failure"] or "")
    both = runs(measured(table(name="free", argv=argv, answer="none"), rounds=2))
    assert [one["failure"] for one in both] == [None, None]


def test_a_server_is_measured_and_its_client_gives_answer_and_score(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    python = sys.executable
    text = table(name="pages", score=r"pages: ([\d.]+)", unit="per second")
    text += "[program.server]\n"
    for key, file in (("start", "server"), ("ready", "client"), ("client", "client")):
        text += f"{key} = {json.dumps([python, str(tmp_path / f'{file}.py'), '{port}'])}\n"
    (found,) = runs(measured(text))
    assert found["failure"] is None, found
    assert found["metrics"]["seconds"] == pytest.approx(1 / 12.5)
    assert found["sample"]["argv"][1].endswith("server.py")


@pytest.mark.parametrize(
    "keys,reason",
    [
        ({"argv": ["$NOWHERE_SET/x"]}, "the variable NOWHERE_SET is not set"),
        ({"argv": ["/nowhere/x"]}, "/nowhere/x is not there"),
        ({"argv": ["true"], "inputs": [["false"]]}, "false makes no inputs"),
    ],
)
def test_what_cannot_be_run_is_missing_with_the_reason(keys, reason):
    (cell,) = measured(table(name="gone", **keys) + table(name="there", argv=["true"]))[0]["cells"][
        :1
    ]
    assert cell["missing"] == reason


@pytest.mark.parametrize(
    "text,complaint",
    [
        (table(name="a"), r"program\[0\].argv: is needed, or else a server"),
        (table(name="a", argv=["x"], answer="all"), "answer: is output, none, lines:PATTERN"),
        (table(name="a", argv=["x"], answer="lines:("), "answer: is no pattern"),
        (table(name="a", argv=["x"], score="no group"), "score: is wall, cpu, or a pattern"),
        (table(name="gcc", argv=["x"]), "'gcc' is a program of the lab"),
        ("", "workload: is needed, or a program"),
    ],
)
def test_a_wrong_table_is_told(text, complaint):
    with pytest.raises(PlanError, match=complaint):
        plan.parse(HEAD + text, "mine.toml")


def test_a_plan_has_rows_of_both_kinds():
    text = '[[workload]]\nprogram = "program:mine"\nname = "again"\n'
    found = plan.parse(HEAD + text + table(name="mine", argv=["true"]), "mine.toml")
    assert [cell.name for cell in cells.of_plan(found)] == ["again", "mine"]


def test_any_command_is_compared_under_allocators(capsys, tmp_path):
    mine = tmp_path / "libmine.so"
    mine.write_bytes(places.nearmalloc_library().read_bytes())
    one.compare_allocators(["sh", "-c", "echo $$"], f"glibc,mine={mine}", 1)
    out = capsys.readouterr().out
    assert "mine" in out and "glibc" in out and "failed" not in out
    path = out.rpartition("result: ")[2].strip()
    records = journal.read(places.ROOT / path)
    assert {line["failure"] for line in runs(records)} == {None}
    with pytest.raises(typer.Exit) as ended:
        one.compare_allocators(["true"], "mine=/none.so")
    assert ended.value.exit_code == 2 and "no file /none.so" in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        one.compare_allocators(["no-such-command"])
    assert capsys.readouterr().err == "nearlab: there is no command no-such-command\n"


def test_the_programs_of_mimalloc_bench_come_from_a_folder(tmp_path, monkeypatch):
    cfrac = tmp_path / "out" / "bench" / "cfrac"
    cfrac.parent.mkdir(parents=True)
    cfrac.write_text("#!/bin/sh\necho $1\n")
    cfrac.chmod(0o755)
    monkeypatch.setenv("MIMALLOC_BENCH", str(tmp_path))
    text = (places.plans_dir() / "mimalloc-bench.toml").read_text()
    head, rest = text.split("allocators = [", 1)
    chosen = plan.parse(head + 'allocators = ["glibc"]' + rest.partition("]")[2], "m.toml")
    with run.prepared(chosen, Choice(rounds=1)) as one_driver:
        missing = {cell.name: cell.missing for cell in one_driver.cells}
    assert missing.pop("cfrac") is None and len(missing) >= 7
    assert all(reason.endswith("is not there") for reason in missing.values())
