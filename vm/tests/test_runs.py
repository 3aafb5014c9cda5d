"""Guests of the NUMA machine, played by a script in QEMU's place: their output is read and judged,
and there is a verdict whatever they do."""

import dataclasses
import json
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fake_guest import AUDIT, FACTS, counts_of, guest_that_counts, guest_that_says, region
from nearlab import places
from nearvm import cases, counting, folders, machine, medians, runs, table, topology, verdict
from nearvm.application import app
from nearvm.guest import Step
from nearvm.verdict import Condition, VerdictError

# --- verdicts -------------------------------------------------------------------------------------

SAID = """\
near-vm begin 00-facts
{"online": "0-1"}
near-vm end 00-facts 0
noise
near-vm begin 01-audit
text
{"pages": 7, "ok": true}
near-vm note a warning
near-vm end 01-audit 0
"""


def test_what_a_guest_said_is_read_step_by_step():
    facts, audit = verdict.read(SAID)
    assert (facts.name, facts.result(), facts.status) == ("facts", {"online": "0-1"}, 0)
    assert audit.lines == ["text", '{"pages": 7, "ok": true}'] and audit.notes == ["a warning"]
    assert audit.failure() is None


def judged(text: str, **conditions: str) -> list[str]:
    wanted = [Condition(key, value) for key, value in conditions.items()]
    return verdict.problems(verdict.read(text)[-1], wanted)


def test_conditions_are_judged_and_a_failure_names_both_numbers():
    assert judged(SAID, pages="== 7", ok="== true") == []
    assert judged(SAID, pages="> 7", ok="== true") == ["pages is 7, expected > 7"]
    assert judged(SAID, gone="== 0") == ["gone is not in the result"]
    assert judged(SAID, **{"pages.all": "== 7"}) == ["pages.all is not in the result"]
    assert judged(SAID.replace("7", '"x"'), pages="> 0") == ['pages is "x", expected > 0']


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("near-vm end 01-audit 0\n", "", "audit did not end: a warning"),
        ("near-vm end 01-audit 0", "near-vm end 01-audit 3", "audit ended with 3: a warning"),
        ('{"pages": 7, "ok": true}\n', "[7]\n", "audit printed no result: a warning"),
        ("a warning", "ERROR: ld.so: object 'x' cannot be preloaded", "audit was not served"),
    ],
)
def test_a_step_that_went_wrong_is_a_failure_with_a_reason(old, new, complaint):
    (found,) = judged(SAID.replace(old, new), pages="== 7")
    assert found.startswith(complaint)


def test_a_condition_that_cannot_be_read_is_refused():
    for text in ("7", "=< 7", "== seven"):
        with pytest.raises(VerdictError):
            Condition("pages", text).check()


def test_sets_of_numbers_are_read_as_the_kernel_writes_them():
    assert verdict.cpu_list("0-2,5") == [0, 1, 2, 5] and verdict.cpu_list("") == []


# --- the machine ----------------------------------------------------------------------------------


STEP = [Step("idle", places.bench_dir() / "idle")]


def booted(made: machine.Machine, **options) -> machine.Output:
    return machine.boot(made, topology.load("2n"), STEP, **options)


def test_a_guest_is_told_all_and_its_lines_are_returned(fake):
    text = 'echo "$@" >"$said"; echo up >"$console"'
    plugin = machine.Plugin(Path("p.so"), {"out": "f"})
    output = booted(fake(text), plugin=plugin, huge_pages="never")
    assert output.console == "up"
    for part in ("-plugin p.so,out=f", "tcg,thread=multi", "transparent_hugepage=never", "node1"):
        assert part in output.said


def test_a_hung_guest_is_killed_and_its_console_told(fake):
    start = time.monotonic()
    stuck = 'echo begin >"$said"; echo "stuck here" >"$console"; exec sleep 60'
    with pytest.raises(machine.MachineError, match="(?s)killed after 3 s.*ended:\nstuck here"):
        booted(fake(stuck), timeout_s=3)
    assert time.monotonic() - start < 30


def test_a_guest_that_hangs_before_its_first_step_is_booted_again(fake, tmp_path):
    marks = f'mark="{tmp_path}/mark"; echo 1 >>"$mark"; echo "boot" >>"$console"; '
    again = '[ $(wc -l <"$mark") -lt 2 ] && exec sleep 60; echo begin >"$said"'
    output = booted(fake(marks + again), boot_s=10)
    assert (output.boots, output.console) == (2, "boot")
    with pytest.raises(machine.MachineError, match="(?s)3 guests were killed after 3 s.*boot"):
        booted(fake(marks + "exec sleep 60"), boot_s=3)


def test_qemus_own_complaint_is_told(fake):
    with pytest.raises(machine.MachineError, match="QEMU ended with 1: no such machine"):
        booted(fake("echo 'no such machine' >&2; exit 1"))


def test_a_plugins_argument_with_a_comma_is_refused():
    with pytest.raises(machine.MachineError, match="a=1,2"):
        machine.Plugin(Path("p.so"), {"a": "1,2"}).words()


def test_the_newest_kernel_and_the_shell_of_any_debian_are_found(fake, tmp_path):
    folder = tmp_path / "vm"
    for name in ("9-1", "9-20", "9-3", "10-0"):
        (folder / f"kernel/boot/vmlinuz-{name}-cloud").write_bytes(b"")
    (folder / "busybox/usr").mkdir()
    (folder / "busybox/bin").rename(folder / "busybox/usr/bin")
    made = fake("exit 0")
    assert made.kernel.name == "vmlinuz-10-0-cloud"
    assert made.busybox == folder / "busybox/usr/bin/busybox" and made.busybox.is_file()


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_VM", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(machine.MachineError, match="qemu-system-x86_64, the guest's kernel, busy"):
        machine.find()


# --- runs -----------------------------------------------------------------------------------------


def executed(fake, facts: str = FACTS, audit: str = AUDIT) -> dict:
    """The verdict of the audit on two nodes, in a guest with this output."""
    (one,) = runs.plan("2n", ["audit"])
    (made,) = runs.execute(guest_that_says(fake, audit, facts), one)
    return made


def test_a_run_ends_in_a_verdict_that_is_kept(fake):
    found = executed(fake)
    assert (found["outcome"], found["why"], found["result"]["pages"]) == ("pass", [], 2000)
    (kept,) = (folders.files() / "verdicts").iterdir()
    assert kept.name == "2n-audit-nearmalloc-1.json" and json.loads(kept.read_text()) == found


def test_a_block_away_fails_the_verdict(fake):
    found = executed(fake, audit=AUDIT.replace('"wrong": 0', '"wrong": 1'))
    assert (found["outcome"], found["why"]) == ("fail", ["wrong is 1, expected == 0"])


def test_a_kernel_with_other_nodes_fails_the_verdict(fake):
    found = executed(fake, facts=FACTS.replace('"memory": "0-1"', '"memory": "0"'))
    assert found["outcome"] == "fail" and "the kernel has other nodes than 2n" in found["why"][0]


def test_a_guest_that_dies_fails_the_verdict_with_its_console(fake):
    made = fake('echo "near-vm begin 00-facts" >"$said"; echo "Kernel panic" >"$console"')
    (found,) = runs.execute(made, runs.plan("2n", ["audit"])[0])
    assert found["outcome"] == "fail" and found["result"] is None
    assert found["why"][0] == "facts did not end" and "Kernel panic" in found["why"][1]


def test_each_seed_has_a_verdict_of_its_own(fake):
    said = f"near-vm begin 00-facts\n{FACTS}\nnear-vm end 00-facts 0\n"
    said += f"near-vm begin 01-audit-1\n{AUDIT}\nnear-vm end 01-audit-1 0\nnear-vm begin 02-audit-2"
    made = fake(f"cat >\"$said\" <<'SAID'\n{said}\nSAID")
    one, two = runs.execute(made, runs.plan("2n", ["audit"], seeds=2)[0])
    assert (one["seed"], one["outcome"]) == (1, "pass")
    assert (two["seed"], two["outcome"]) == (2, "fail") and two["why"][0] == "audit-2 did not end"


def test_an_allocator_that_is_not_here_is_missing_in_its_verdict(fake):
    (found,) = runs.execute(fake("exit 1"), runs.plan("2n", ["audit"], "mine=/none.so")[0])
    assert found["outcome"] == "missing" and found["why"] == ["/none.so is not there"]


def test_what_a_guest_needs_and_is_gone_fails_its_verdicts_alone(fake, monkeypatch):
    (one,) = runs.plan("2n", ["audit"], seeds=2)
    guests = guest_that_says(fake, AUDIT)
    with monkeypatch.context() as without:
        without.setenv("PATH", "/none")
        found = runs.execute(guests, one)
    assert [each["outcome"] for each in found] == ["fail", "fail"]
    assert found[0]["why"][0].endswith(": ldd: No such file or directory")
    gone = dataclasses.replace(guests, busybox=Path("/none/busybox"))
    assert "No such file" in runs.execute(gone, one)[0]["why"][0]


def test_a_table_has_medians_of_the_runs_that_passed():
    def text(*numbers: int, failed: int = 0) -> str:
        made = [{"outcome": "pass", "result": {"pages": number}} for number in numbers]
        lost = [{"outcome": "fail", "result": {"pages": 7}}] * failed
        return str(medians.printed([*lost, *made], "pages"))

    assert (text(5, 5), text(), text(failed=1)) == ("5", "None", "None")
    assert text(1000, 1040, 990) == "1,000 ±4 %" and text(1000, 900) == "950 ±5 %!"
    assert text(0, 0, 3) == "0 to 3!" and text(30, 30, failed=1) == "30 (n=2)"


def test_outcomes_that_differ_are_counted():
    several = [{"outcome": "pass"}, {"outcome": "fail"}, {"outcome": "pass"}]
    assert table.outcomes_of(several) == ["pass (2 of 3)", "fail (1 of 3)"]
    assert table.outcomes_of(several[:1]) == ["pass"]


def test_a_choice_is_wrong_before_anything_runs():
    with pytest.raises(runs.ChoiceError, match="unknown 'streamflow'"):
        runs.plan("2n", ["audit"], "streamflow")
    planned = runs.plan("2n", ["audit"], "near,glibc", seeds=2)
    assert [(one.allocator.name, one.seeds) for one in planned] == [
        *(("nearmalloc", (1, 2)), ("glibc", (1, 2)))
    ]
    assert {one.topology.name for one in runs.plan("all", ["audit"])} >= {"1n", "ring", "holes"}


# --- counts ---------------------------------------------------------------------------------------


@pytest.fixture
def counter(tmp_path):
    return counting.Counter(topology.load("cpuless"), tmp_path / "counts.json")


def test_the_plugin_is_told_where_each_processor_is(counter):
    words = counter.plugin().words()
    assert words[1].endswith(f"libnearcount.so,out={counter.out},cpus=0:0+1:0+2:1+3:1")
    assert [step.name for step in counter.before()] == ["calibrate"]
    assert counter.arguments() == ["--mark", "--pin", "spread"]
    assert counter.environment() == {"LD_BIND_NOW": "1"}


def test_a_marked_region_belongs_to_a_seed(counter):
    counter.out.write_text(counts_of(region(30), region(50)))
    found = [counted["heap"] for counted, complaint in counter.read(2) if complaint is None]
    assert [each["remote"] for each in found] == [30, 50]
    assert (found[0]["accesses"], found[0]["remote_misses"], found[0]["bounces"]) == (130, 7, 6)
    assert counter.read(1) == [(None, "the plugin counted 2 regions, expected 1")]


def test_a_region_that_never_ended_leaves_the_others(counter):
    counter.out.write_text(counts_of(region(30), region(50) | {"complete": False}))
    (counted, fine), (nothing, complaint) = counter.read(2)
    assert counted["heap"]["remote"] == 30 and fine is None
    assert nothing is None and complaint == "region 1 did not come to its end"


def test_counts_that_are_not_there_are_a_complaint(counter):
    for text, expected in ((None, "the plugin did not start"), ("{", "not JSON")):
        if text:
            counter.out.write_text(text)
        ((counted, complaint),) = counter.read(1)
        assert counted is None and expected in complaint
        assert complaint.startswith("the plugin's counts") and str(counter.out) not in complaint


def test_a_condition_looks_into_the_counts(fake, counter, monkeypatch):
    counter.out.write_text(counts_of(region(30)))
    monkeypatch.setattr(counting.Counter, "plugin", lambda self: None)
    monkeypatch.setattr(counting.Counter, "before", lambda self: [])
    monkeypatch.setattr(runs.Counter, "of", lambda *_: counter)
    text = 'description = "d"\nprogram = "audit"\ncounted = true\n[expect]\npages = "> 0"\n'
    for condition, expected in (("== 30", []), ("== 0", ["is 30, expected == 0"])):
        counted = f'[expect_nearmalloc]\n"counts.heap.remote" = "{condition}"\n'
        one = dataclasses.replace(
            *runs.plan("2n", ["audit"]), case=cases.parse(text + counted, "audit")
        )
        (found,) = runs.execute(guest_that_says(fake, AUDIT), one)
        assert found["why"] == [f"counts.heap.remote {each}" for each in expected]
    counter.out.write_text("{")
    (found,) = runs.execute(guest_that_says(fake, AUDIT), one)
    assert len(found["why"]) == 1 and "not JSON" in found["why"][0]


def test_the_table_of_counts_has_medians_of_what_was_counted(counter, capsys):
    counter.out.write_text(counts_of(region(3000), region(3060)))
    made = {"topology": "2n", "case": "larson", "allocator": "glibc", "outcome": "pass"}
    verdicts = [made | {"counts": counted} for counted, _ in counter.read(2)]
    failed = verdicts[0] | {"outcome": "fail"}
    table.show_counts(Console(width=160), [*verdicts, failed, failed | {"allocator": "x"}])
    out = capsys.readouterr().out
    assert "3,030 ±1 % (n=2)" in out and "larson" in out and "256 KiB" in out
    assert "n: so many runs passed" in out and "!" not in out and " x " not in out
    table.show_counts(Console(), [made | {"counts": None}])
    assert capsys.readouterr().out == ""


def test_a_case_says_how_its_threads_are_pinned(monkeypatch, tmp_path):
    monkeypatch.setattr(counting.folders, "program", lambda name: Path(__file__))
    within = cases.load("producer_consumer_within")
    counted = counting.Counter.of(within, topology.load("4n"), tmp_path)
    assert counted.arguments() == ["--mark", "--pin", "compact"]


def test_a_case_that_is_not_counted_runs_plain(tmp_path):
    plain = counting.Counter.of(cases.load("audit"), topology.load("2n"), tmp_path)
    assert plain.plugin() is None and plain.before() == plain.arguments() == []
    assert plain.environment() == {}
    assert plain.read(3) == [(None, None)] * 3


def test_a_counted_case_is_missing_without_the_plugin(fake, monkeypatch):
    monkeypatch.setattr(counting, "PLUGIN", "none.so")
    (found,) = runs.execute(fake("exit 1"), runs.plan("4n", ["larson"], "glibc")[0])
    assert found["outcome"] == "missing"
    assert found["why"] == ["none.so, which counts accesses, is not built"]
    assert runs.execute(guest_that_says(fake, AUDIT), runs.plan("2n", ["audit"])[0])


# --- the commands ---------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, words)
    return ended.exit_code, ended.output


def test_run_prints_a_row_for_each_case_and_its_status_tells_how_it_went(fake):
    guest_that_says(fake, AUDIT)
    status, out = command("run", "2n", "audit")
    assert status == 0 and "near vm: 2n audit nearmalloc seed 1: pass" in out
    assert "1 passed, 0 failed" in out and "2,000" in out
    guest_that_says(fake, AUDIT.replace('"spills": 0', '"spills": 4'))
    status, out = command("run", "2n", "audit")
    assert status == 1 and "spills is 4, expected == 0" in out and "0 passed, 1 failed" in out


def test_run_takes_the_allocators_by_their_short_names(fake):
    names = ("libnearmalloc.so", "libnumalloc.so", "glibc")
    guest_that_counts(fake, {name: [4096] for name in names})
    status, out = command("run", "4n", "larson", "--allocators", "near,numalloc,glibc")
    assert status == 0 and "3 passed, 0 failed" in out and out.count("4,096") == 3
    assert all(f"larson {name} seed 1: pass" in out for name in ("nearmalloc", "numalloc", "glibc"))


def test_run_refuses_what_there_is_not(fake):
    fake("exit 1")
    for words, complaint in (
        (("9n", "audit"), "there is no topology '9n'"),
        (("2n", "nothing"), "there is no case 'nothing'"),
        (("2n", "audit", "--allocators", "streamflow"), "--allocators: unknown 'streamflow'"),
    ):
        status, out = command("run", *words)
        assert status == 2 and f"near vm: {complaint}" in out


def test_list_names_topologies_and_cases():
    status, out = command("list")
    assert status == 0 and all(name in out for name in ("memoryless", "holes", "mbind_refused"))
