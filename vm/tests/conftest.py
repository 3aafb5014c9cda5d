"""What the tests of the NUMA machine's Python share: the count of cases, a guest without QEMU."""

import pytest

from case_count import pytest_terminal_summary as pytest_terminal_summary
from nearvm import machine


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
