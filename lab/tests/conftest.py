"""Prints how many cases ran, for the calling tool; with none, pytest itself fails (exit status 5).

Hypothesis tries the same examples every time and keeps its files in build.
"""

import os

import hypothesis
import pytest

from nearlab import peers, places
from nearlab.vm import machine

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(places.RESULTS / "hypothesis"))
hypothesis.settings.register_profile("lab", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("lab")


def pytest_terminal_summary(terminalreporter):
    ran = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    terminalreporter.write_line(f"cases: {len(ran)}")
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(f"skipped: {len(skipped)}")
    for reason in {report.longrepr[2] for report in skipped}:
        terminalreporter.write_line(reason)


@pytest.fixture(scope="session")
def found():
    """The allocators of this machine by name; a test installs none."""
    return {allocator.name: allocator for allocator in peers.find_all()}


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes a substitute for QEMU: a shell script that knows the files of the serial lines."""
    monkeypatch.setenv("NEAR_VM", str(tmp_path / "vm"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    for file in ("kernel/boot/vmlinuz-1", "busybox/bin/busybox"):
        path = tmp_path / "vm" / file
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")

    def make(text: str) -> machine.Machine:
        qemu = tmp_path / "bin" / "qemu-system-x86_64"
        files = 'for word; do case "$word" in file:*/console) console="${word#file:}" ;; '
        files += 'file:*/said) said="${word#file:}" ;; esac; done\n'
        qemu.write_text(f"#!/bin/sh\n{files}{text}\n")
        qemu.chmod(0o755)
        return machine.find()

    return make
