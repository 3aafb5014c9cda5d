"""The guest of the NUMA machine, unpacked from packages that a fake apt-get hands out; wheels."""

import platform
import shutil
import subprocess

import pytest

from neardriver import guest, paths, wheels
from neardriver.messages import Misuse
from scripts import script

DEPENDS = """linux-image-cloud-amd64
  Depends: linux-image-6.1.0-9-cloud-amd64
  Depends: other"""


@pytest.fixture
def debian(build, commands, tmp_path, monkeypatch):
    """A fake apt-get, whose `download` hands out packages that `files` names."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("there is no dpkg-deb")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    script(commands / "apt-cache", f"echo '{DEPENDS}'")
    script(commands / "apt-get", f'[ "$5" = download ] || exit 0\necho "$6" >> {tmp_path}/asked\n'
           f'cp {tmp_path}/"$6".deb .')

    def offer(package: str, file: str) -> None:
        folder = tmp_path / package
        (folder / "DEBIAN").mkdir(parents=True)
        (folder / "DEBIAN/control").write_text(
            "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: n <n@n>\nDescription: d\n")
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(package)
        (folder / "unwanted").touch()
        subprocess.run(["dpkg-deb", "--build", folder, f"{folder}.deb"], check=True,
                       capture_output=True)

    return offer


def test_kernel_and_shell_are_unpacked_once(debian, build, tmp_path):
    debian("linux-image-6.1.0-9-cloud-amd64", "boot/vmlinuz-6.1")
    debian("busybox-static", "usr/bin/busybox")
    guest.need()
    files = sorted(str(path.relative_to(build / "vm")) for path in (build / "vm").rglob("*")
                   if path.is_file())
    assert files == ["busybox/usr/bin/busybox", "kernel/boot/vmlinuz-6.1"]
    guest.need()
    assert len((tmp_path / "asked").read_text().splitlines()) == 2


def test_a_package_without_the_file_is_a_misuse(debian):
    debian("linux-image-6.1.0-9-cloud-amd64", "boot/config")
    with pytest.raises(Misuse, match="does not hold boot/vmlinuz"):
        guest.need()


def test_a_package_that_cannot_be_had_is_a_misuse_or_a_note(debian, capfd):
    with pytest.raises(Misuse, match="cannot download linux-image-6"):
        guest.need()
    guest.want()
    assert capfd.readouterr().err.endswith("near: going on without the NUMA machine\n")


def test_an_apt_that_knows_no_kernel_is_a_misuse(debian, commands):
    script(commands / "apt-cache", "echo nothing")
    with pytest.raises(Misuse, match="apt knows no package linux-image-cloud-amd64"):
        guest.need()


def test_other_processors_have_no_guests(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(Misuse, match="x86-64"):
        guest.need()


@pytest.mark.parametrize("status", [0, 1])
def test_wheels_are_installed_once_or_done_without(build, monkeypatch, tmp_path, capfd, status):
    python = script(tmp_path / "python3", f"""echo "$@" >> {tmp_path}/asked
case "$*" in *venv*) for last; do :; done; mkdir -p $last/bin; cp $0 $last/bin;; esac
case "$*" in *pip*) exit {status};; esac""")
    monkeypatch.setattr(paths, "PYTHON", python)
    for _ in range(2):
        wheels.want()
    asked = (tmp_path / "asked").read_text()
    assert asked.count("--only-binary :all: numpy pyarrow") == 1 + status
    assert (build / "wheels").exists() == (status == 0)
    assert ("going on without numpy pyarrow" in capfd.readouterr().err) == (status == 1)
