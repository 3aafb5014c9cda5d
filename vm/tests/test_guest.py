"""The parts of a guest of the NUMA machine: topologies, cases, its file system, its steps."""

import stat
from pathlib import Path

import pytest

from nearlab import places
from nearvm import cases, guest, initramfs, topology
from nearvm.guest import Limits, Step
from nearvm.topology import TopologyError
from nearvm.verdict import Condition

NODE = "[[node]]\ncpus = 2\nmemory_mib = 256\n"
HEAD = 'description = "d"\n'


# --- topologies -----------------------------------------------------------------------------------


def parsed(text: str) -> topology.Topology:
    return topology.parse(HEAD + text, "try")


def test_every_topology_of_the_lab_is_right():
    found = {name: topology.load(name) for name in topology.names()}
    assert {"1n", "2n", "4n", "8n", "ring", "memoryless", "cpuless", "holes"} <= set(found)
    assert found["8n"].with_memory == list(range(8))
    assert found["memoryless"].with_memory == [1, 2] and found["memoryless"].home(0) == 2
    assert found["cpuless"].with_memory == [0, 1, 2] and found["cpuless"].node_of_cpu[-1] == 1
    assert found["holes"].online == [0, 1, 4]


def test_qemu_is_told_of_each_node_and_distance():
    words = " ".join(parsed("distances = [[10, 21], [31, 10]]\n" + NODE + NODE).qemu())
    assert words.startswith("-smp cpus=4,sockets=4,cores=1,threads=1 -m 512M ")
    assert "-object memory-backend-ram,id=node0,size=256M " in words
    assert "-numa node,nodeid=1,memdev=node1,cpus=2,cpus=3" in words
    assert "-numa dist,src=0,dst=1,val=21" in words and "src=1,dst=0,val=31" in words


def test_a_node_without_memory_or_processors_says_so():
    words = parsed("[[node]]\ncpus = 1\n" + NODE + "[[node]]\nmemory_mib = 64\n").qemu()
    assert "node,nodeid=0,cpus=0" in words and "node,nodeid=2,memdev=node2" in words


def test_the_kernel_is_kept_off_the_memory_of_a_hole():
    place = parsed(NODE + "[[node]]\nmemory_mib = 64\nabsent = true\n[[node]]\nmemory_mib = 32\n")
    assert place.kernel() == ["memmap=0x4000000$0x10000000"]
    assert place.online == place.with_memory == [0, 2]


def test_a_home_is_the_nearest_allowed_node():
    place = topology.load("ring")
    assert place.homes() == "0:0,1:0,2:1,3:1,4:2,5:2,6:3,7:3"
    assert place.home(0, [2, 3]) == 3 and place.home(2, [0, 2]) == 0 and place.home(4, [2]) == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[node]]\nmemory_mib = 64\n", "the first node must have a processor"),
        ("[[node]]\ncpus = 1\n", "node: none has memory"),
        (NODE + "[[node]]\n", "node[1]: neither processors nor memory"),
        (NODE + "[[node]]\nmemory_mib = 64\n" + NODE, "node[2].cpus: nodes without processors"),
        (NODE + "[[node]]\ncpus = 1\nmemory_mib = 16\n", "node[1].memory_mib: at least 32"),
        (NODE + "[[node]]\ncpus = 1\nabsent = true\n" + NODE, "node[1].absent: a node with"),
        (NODE + "[[node]]\nmemory_mib = 64\nabsent = true\n", "node[1].absent: the last node"),
        ("[[node]]\ncpus = 1\nmemory_mib = 4000\n", "more than 3072 MiB"),
        ("distances = [[10, 20]]\n" + NODE + NODE, "distances: 2 rows of 2 numbers"),
        ("distances = [[10, 10], [20, 10]]\n" + NODE + NODE, "distances[0][1]: a node is 10"),
        (NODE + "colour = 1\n", "node[0].colour: unknown key"),
        ("[[node]]\ncpus = 'two'\n", "node[0].cpus: input should be"),
        ("node = 3 =", "not TOML"),
    ],
)
def test_what_is_wrong_with_a_topology_is_named(text, complaint):
    with pytest.raises(TopologyError, match="^try: ") as caught:
        parsed(text)
    assert complaint in str(caught.value)


def test_an_unknown_topology_or_case_is_refused_with_the_known_ones():
    with pytest.raises(TopologyError, match="there is no topology '9n'; there are: 1n, 2n"):
        topology.load("9n")
    with pytest.raises(cases.CaseError, match="there is no case 'x'; there are: audit"):
        cases.load("x")


# --- cases ----------------------------------------------------------------------------------------


def test_every_case_of_the_lab_is_right_on_its_topologies():
    for name in cases.names():
        case = cases.load(name)
        for place in map(topology.load, case.keys.topologies):
            words = " ".join([*case.arguments(place), *case.environment(place).values()])
            conditions = case.conditions(place, "nearmalloc")
            assert conditions and "{" not in words + "".join(each.text for each in conditions)


def case_of(text: str) -> cases.Case:
    return cases.parse(HEAD + text + '[expect]\npages = "> {cpus}"\n', "try")


def test_a_case_is_filled_in_by_the_topology_under_its_limits():
    text = 'program = "audit"\narguments = ["{homes}", "{cpus} of {pairs}"]\n'
    case = case_of(text + '[limits]\nmems = "1"\n[environment]\nN = "{memory_nodes}"\n')
    place = topology.load("4n")
    assert case.arguments(place) == [",".join(f"{cpu}:1" for cpu in range(8)), "8 of 4"]
    assert case.environment(place) == {"N": "1"}
    assert case.conditions(place, "glibc") == [Condition("pages", "> 8")]


COUNTS = 'program = "a"\n[expect_nearmalloc]\n"counts.{}" = "== 0"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "program: a case has a program or a workload"),
        ('program = "a"\nworkload = "b"\n', "program: a case has a program or a workload"),
        ('program = "a"\nhuge_pages = "some"\n', "huge_pages: input should be"),
        ('program = "a"\narguments = ["{cats}"]\n', "there is no {cats}; there are: cpus,"),
        ('program = "a"\n[limits]\ncpus = "1"\n', "limits.cpus: unknown key"),
        ('program = "a"\n[expect_nearmalloc]\nx = "about 3"\n', "expect.x: 'about 3' is no cond"),
        ('program = "a"\n[expect_nearmalloc]\nx = "== yes"\n', "expect.x: 'yes' is no JSON"),
        (COUNTS.format("heap.remote"), "expect.counts.heap.remote: the case is not counted"),
        ("counted = true\n" + COUNTS.format("heap.far"), "counts.heap.far: there is no such count"),
    ],
)
def test_what_is_wrong_with_a_case_is_named(text, complaint):
    with pytest.raises(cases.CaseError, match="^try: ") as caught:
        case_of(text)
    assert complaint in str(caught.value)


# --- the guest's file system ----------------------------------------------------------------------


def entries(data: bytes) -> dict[str, tuple[int, bytes]]:
    """An archive read back, as name: (mode, contents)."""
    found = {}
    at = 0
    while data[at : at + 6] == b"070701":
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        start = (at + 110 + fields[11] + 3) // 4 * 4
        found[name] = (fields[1], data[start : start + fields[6]])
        at = (start + fields[6] + 3) // 4 * 4
    return found


def test_an_archive_holds_what_was_put_in_after_its_folders(tmp_path):
    script = tmp_path / "run"
    script.write_bytes(b"\x00odd")
    script.chmod(0o755)
    made = initramfs.Archive()
    made.file("lab/deep/run", script)
    made.text("/etc/name", "guest\n")
    made.link("sbin", "bin")
    found = entries(made.to_bytes())
    names = ["lab", "lab/deep", "lab/deep/run", "etc", "etc/name", "sbin", "TRAILER!!!"]
    assert list(found) == names
    assert found["lab/deep/run"] == (stat.S_IFREG | 0o755, b"\x00odd")
    assert found["etc/name"] == (stat.S_IFREG | 0o644, b"guest\n")
    assert found["sbin"] == (stat.S_IFLNK | 0o777, b"bin")
    assert stat.S_ISDIR(found["lab"][0])
    assert made.to_bytes() == made.to_bytes() and len(made.to_bytes()) % 512 == 0


def test_two_files_of_one_name_are_refused_unless_they_are_equal():
    made = initramfs.Archive()
    made.text("a", "x")
    made.text("a", "x")
    with pytest.raises(initramfs.InitramfsError, match="two files of the guest would be a"):
        made.text("a", "y")


def test_a_program_comes_with_its_libraries_and_the_loader():
    made = initramfs.Archive()
    made.program("lab/idle", places.bench_dir() / "idle")
    names = made.names()
    assert any("ld-linux" in name for name in names) and any("libc.so" in name for name in names)
    assert not any(name.startswith("/") for name in names)


def test_what_is_no_program_has_no_libraries_and_what_is_missing_is_named(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert initramfs.libraries(script) == []
    with pytest.raises(initramfs.InitramfsError, match="none: No such file"):
        initramfs.Archive().file("x", tmp_path / "none")


def test_a_step_runs_its_program_boxed_and_served():
    limits = Limits(mems="1", refuse="mbind", fill="0:32")
    step = Step("a", Path("x/audit"), ["--homes", "0:0 1"], Path("y/lib m.so"), {"E": "1"}, limits)
    lines = step.script().splitlines()
    assert "echo 1 >/sys/fs/cgroup/box/cpuset.mems || exit 125" in lines
    confined = "exec /lab/confine --refuse mbind --fill 0:32 -- "
    assert lines[-1] == (confined + "env E=1 'LD_PRELOAD=/lab/lib m.so' /lab/audit --homes '0:0 1'")
    assert Step("a", Path("x/audit")).script() == "exec env /lab/audit\n"


def test_a_guest_has_its_steps_in_order(tmp_path):
    shell = tmp_path / "busybox"
    shell.write_bytes(b"#!")
    idle = places.bench_dir() / "idle"
    found = entries(guest.archive([Step("one", idle), Step("two", idle)], shell))
    assert [name for name in found if name.startswith("steps/")] == [
        *("steps/00-facts", "steps/01-one", "steps/02-two")
    ]
    assert found["init"][0] & 0o111 and found["lab/idle"][1] == idle.read_bytes()
