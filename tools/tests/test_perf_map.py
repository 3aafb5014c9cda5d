"""Code that a runtime compiled while it ran has names in profiles, from its map for perf."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modules import run_command
from nearmalloc_tools.profile import perf_map
from nearmalloc_tools.profile.perf_map import PerfMap
from nearmalloc_tools.profile.symbols import Frame, Symbols

LINES = """\
1000 100 first
1100 80 second with blanks
not a line
2000
1080 40 again
1100 10
"""


def test_later_lines_replace_earlier_ones():
    pieces = PerfMap(LINES)
    assert pieces.name(0x107F) is None, "the first one's memory was used again"
    assert [pieces.name(each) for each in (0x1080, 0x10BF)] == ["again", "again"]
    assert [pieces.name(each) for each in (0xFFF, 0x10C0, 0x1180, 0x2000)] == [None] * 4
    assert [pieces.name(each) for each in (0x1100, 0x117F)] == ["second with blanks"] * 2
    assert PerfMap("").name(1) is None


def test_addresses_outside_of_files_have_these_names():
    symbols = Symbols([], [0x1100, 0x3000], PerfMap(LINES))
    assert symbols.frames(0x1100) == [Frame("second with blanks", "")]
    assert symbols.frames(0x3000) == [Frame("0x3000", "")]
    symbols = Symbols([], [0x10], PerfMap("10 1 clear\x1b[2J"))
    assert symbols.frames(0x10) == [Frame("clear?[2J", "")], "it would clear the terminal"


def test_the_file_of_an_earlier_process_is_not_read(tmp_path):
    path = tmp_path / "perf-7.map"
    path.write_text(LINES)
    os.utime(path, (1000, 1000))
    user = os.getuid()
    assert perf_map.read(7, 1000.9, user, tmp_path).name(0x1100)
    assert perf_map.read(7, 1001, user, tmp_path).name(0x1100) is None
    assert perf_map.read(8, 0, user, tmp_path).name(0x1100) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another user")
def test_the_file_of_the_servers_own_user_is_read_and_no_third_ones(tmp_path):
    path = tmp_path / "perf-7.map"
    path.write_text(LINES)
    os.chown(path, 65534, 65534)
    assert perf_map.read(7, 0, 65534, tmp_path).name(0x1100)
    assert perf_map.read(7, 0, 1, tmp_path).name(0x1100) is None


def test_what_is_no_regular_file_is_not_read(tmp_path):
    """Each user can make one in the folder, and opening a pipe would wait."""
    (tmp_path / "map").write_text(LINES)
    (tmp_path / "perf-7.map").symlink_to(tmp_path / "map")
    os.mkfifo(tmp_path / "perf-8.map")
    script = (
        "import os, sys; from pathlib import Path; from nearmalloc_tools.profile import perf_map\n"
        "for pid in (7, 8): print(perf_map.read(pid, 0, 0, Path(sys.argv[1])).name(0x1100))"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "None\nNone\n"


@pytest.mark.skipif(not shutil.which("node"), reason="not installed: node")
def test_functions_of_javascript_are_named(tmp_path):
    script = tmp_path / "buffers.js"
    script.write_text(
        "const kept = [];\n"
        "function plantInJs(i) { return Buffer.allocUnsafeSlow(20000 + i % 7); }\n"
        "for (let i = 0; i < 2000; i++) kept[i % 500] = plantInJs(i);\n"
    )
    page = tmp_path / "page.html"
    words = ["--out", str(page), "--interval", "50000", "--", "node", "--perf-basic-prof"]
    words += ["--interpreted-frames-native-stack", str(script)]
    result = run_command("profile", *words, cwd=tmp_path)  # where Node leaves a log
    assert result.returncode == 0, result.stderr
    text = page.read_text()
    pid = re.search(r"Process (\d+)", text)[1]
    Path(f"/tmp/perf-{pid}.map").unlink()
    assert re.search(r"JS:\S?plantInJs", text)
