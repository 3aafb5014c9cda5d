"""What is built from crates: allocators, a small cdylib around each in lab/peers/NAME, and
workloads in Rust, programs in lab/reclaim/NAME.

Invariant: `find` looks, only `build` builds; the library build/peers/libNAME.so, or the program
build/peers/bin/NAME, belongs to the record build/peers/NAME.json, and to the crate's folder as long
as the record holds its hash. A failure is recorded with its reason and tried again at the next
`build`.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearlab import places
from nearlab.peers import installing

_TIMEOUT_S = 600
_JOBS = 2
# These variables change what cargo builds or where, and the record would not show it.
_MEDDLING = ("LD_PRELOAD", "RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_BUILD_RUSTFLAGS")


@dataclass(frozen=True, slots=True)
class Crate:
    name: str
    dependency: str  # the crate that holds the allocator's own source
    settings: str = ""  # settings that the crate fixes and cargo does not report

    @property
    def folder(self) -> Path:
        return places.crates_dir() / self.name

    @property
    def built_in(self) -> Path:
        """The folder of the library, the record and cargo's files."""
        return places.peers_build()

    def environment(self) -> dict[str, str]:
        """Variables for the build."""
        return {}

    @property
    def kind(self) -> str:
        """What cargo builds: a library or a program."""
        return "library"

    @property
    def target(self) -> str:
        """The file name of what cargo builds."""
        return "libpeer.so"

    @property
    def library(self) -> Path:
        return self.built_in / f"lib{self.name}.so"

    @property
    def record_file(self) -> Path:
        return self.built_in / f"{self.name}.json"

    def record(self) -> dict[str, Any]:
        """Returns the record of the last build if it was of this crate's present files; else an
        empty one."""
        try:
            found = json.loads(self.record_file.read_text())
        except (OSError, ValueError):
            return {}
        return found if found.get("hash") == self.hash() else {}

    def hash(self) -> str:
        """Returns a hash of the build's variables, of every source file of the crate and of the
        one that all crates share."""
        digest = hashlib.sha256(repr(self.environment()).encode())
        own = [path for path in self.folder.rglob("*") if path.is_file()]
        for path in sorted([*own, *self.folder.parent.glob("*.rs")]):
            digest.update(f"{path.relative_to(self.folder.parent)}\0".encode())
            digest.update(path.read_bytes() + b"\0")
        return digest.hexdigest()

    def find(self) -> Path | None:
        record = self.record()
        built = record and "missing" not in record
        return self.library if built and self.library.exists() else None

    def flags(self) -> str:
        built = self.record()
        parts = [built["crate"], built["features"], self.settings, built["rustc"], built["cxx"]]
        return "; ".join(part for part in parts if part)

    def hint(self) -> str:
        missing: str | None = self.record().get("missing")
        return missing or f"not built: cargo builds it from {self.dependency}"

    def build(self) -> None:
        """Builds the crate unless it is built. Writes the record, with the library or with a
        reason."""
        if self.find():
            return
        self.built_in.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        record: dict[str, Any] = {"hash": self.hash()}
        record |= {"crate": self._locked_crate(), "features": self._features()}
        get_tools()
        cargo = find_cargo()
        if cargo is None:
            record["missing"] = "cargo is missing"
        else:
            record |= {"cargo": _says(cargo, "--version"), "rustc": _says(_rustc(cargo), "-V")}
            record |= {"cxx": _says(os.environ.get("CXX", "c++"), "--version")}
            problem = self._compile(cargo)
            record |= {"missing": problem} if problem else {"bytes": self.library.stat().st_size}
        record["seconds"] = round(time.monotonic() - started, 1)
        _write(self.record_file, json.dumps(record, indent=1) + "\n")

    def _compile(self, cargo: str) -> str | None:
        """Returns None, or the reason why there is no library."""
        target = self.built_in / self.name
        log = places.logs_dir() / f"peer-{self.name}.log"
        command = [cargo, "build", "--release", "--locked", f"-j{_JOBS}", "--color=never"]
        try:
            command += ["--target-dir", str(target)]
            code = _run(command, self.folder, self.environment(), log)
        except OSError as error:
            return f"cargo does not run: {error.strerror}"
        except subprocess.TimeoutExpired:
            return f"cargo did not end within {_TIMEOUT_S} s"
        if code != 0:
            return f"cargo failed: {reason(log.read_text(errors='replace'))}"
        built = target / "release" / self.target
        if not built.exists():
            return f"cargo built no {self.kind}"
        self.library.parent.mkdir(exist_ok=True)
        new = self.library.with_suffix(f".{os.getpid()}")
        shutil.copy(built, new)
        new.replace(self.library)
        return None

    def _locked_crate(self) -> str:
        """Returns the dependency with its locked version, such as `snmalloc-sys 0.7.6`."""
        packages = tomllib.loads((self.folder / "Cargo.lock").read_text())["package"]
        versions = [each["version"] for each in packages if each["name"] == self.dependency]
        return f"{self.dependency} {versions[0]}" if versions else self.dependency

    def _features(self) -> str:
        manifest = tomllib.loads((self.folder / "Cargo.toml").read_text())
        wanted = manifest["dependencies"][self.dependency].get("features", [])
        return f"features default {' '.join(wanted)}".strip()


@dataclass(frozen=True, slots=True)
class ProgramCrate(Crate):
    """A workload in Rust. What it prints for --help is its src/help.txt, built or not."""

    @property
    def folder(self) -> Path:
        return places.rust_workloads_dir() / self.name

    @property
    def kind(self) -> str:
        return "program"

    @property
    def target(self) -> str:
        return self.name

    @property
    def library(self) -> Path:
        return places.peers_build() / "bin" / self.name

    def help(self) -> str:
        return (self.folder / "src" / "help.txt").read_text(encoding="utf-8")


def find_cargo() -> str | None:
    homes = f"{os.environ.get('PATH', '')}{os.pathsep}{Path.home() / '.cargo' / 'bin'}"
    return shutil.which("cargo", path=homes)


def get_tools() -> None:
    """Tries to install what is missing: cargo, the newer of Debian's two, and make, which the
    scripts of crates call."""
    if shutil.which("make") is None:
        installing.apt_install(["make"])
    if find_cargo() is None and not installing.apt_install(["cargo-web"]):
        installing.apt_install(["cargo"])


def reason(log: str) -> str:
    """The first line that cargo or a compiler calls an error, else the last one."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error")]
    return [*errors, *lines[-1:], "no message"][0][:200]


def _rustc(cargo: str) -> str:
    beside = Path(cargo).with_name("rustc")
    return str(beside) if beside.exists() else "rustc"


def _says(program: str, option: str) -> str:
    """The first line of what the program prints; empty if it cannot run."""
    try:
        done = subprocess.run([program, option], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0].strip()


def _run(command: list[str], folder: Path, more: dict[str, str], log: Path) -> int:
    """Runs a command with `more` environment. Returns the exit status; output goes to `log`. At
    the time-out it ends all processes of the command."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k not in _MEDDLING}
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=kept | {"CARGO_TERM_PROGRESS_WHEN": "never"} | more,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return child.wait(_TIMEOUT_S)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise


def _write(path: Path, text: str) -> None:
    """Writes the file atomically, so a reader never sees a partial record."""
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(text)
    new.replace(path)
