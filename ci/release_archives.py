"""Makes the archives of a release.

A release is three archives and SHA256SUMS: the source, the installed files without debug
information, and the debug information. Archives of one commit are byte-identical in any folder:
entries are sorted and have the commit's time, owner 0 and one of two modes, and the compiler
records paths below SOURCE_PREFIX.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from release_steps import NotReady, Step

ROOT = Path(__file__).resolve().parent.parent
VERSION_LINE = re.compile(r"^#define NEAR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
TARGETS = ("nearmalloc", "nearmalloc_static", "nearmalloc_api", "nearmalloc_api_static",
           "nearreclaim", "nearreclaim_static")
MANIFEST = Path("share/nearmalloc/manifest.txt")
DEBUG_FOLDER = Path("lib/.debug")  # GDB and LLDB look for debug files beside the library there
OWN_NAME = "nearmalloc"


@dataclass(frozen=True)
class Release:
    version: str
    seconds: int  # of the commit

    @property
    def source(self) -> str:
        return f"{OWN_NAME}-{self.version}"

    @property
    def binary(self) -> str:
        return f"{self.source}-linux-{platform.machine()}"

    @property
    def debug(self) -> str:
        return f"{self.binary}-debug"

    @property
    def source_prefix(self) -> str:
        """The folder where a debugger looks for the source."""
        return f"/usr/src/{self.source}"


def git(*arguments: str) -> str:
    done = subprocess.run(("git", "-C", str(ROOT), *arguments), capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise NotReady(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def current_release() -> Release:
    header = (ROOT / "include/nearmalloc/nearmalloc.h").read_text(encoding="utf-8")
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
    if not seconds.strip().isdecimal():
        raise NotReady(f"SOURCE_DATE_EPOCH is no number of seconds: {seconds}")
    return Release(".".join(VERSION_LINE.findall(header)), int(seconds))


def refuse_changes() -> None:
    changed = git("status", "--porcelain", "--untracked-files=no").splitlines()
    if changed:
        raise NotReady(f"{len(changed)} tracked files are changed, as {changed[0][3:]}; "
                       "commit them or say --allow-dirty")


def copy_source(folder: Path) -> None:
    """Copies the files that git tracks."""
    for name in filter(None, git("ls-files", "-z").split("\0")):
        source, copy = ROOT / name, folder / name
        if not source.is_symlink() and not source.exists():
            continue  # removed, and --allow-dirty
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy, follow_symlinks=False)


def pack(folder: Path, archive: Path, seconds: int) -> None:
    """Packs the folder, with its name, into a .tar.xz."""
    with tarfile.open(archive, "w:xz", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted((folder, *folder.rglob("*"))):
            entry = tarfile.TarInfo(str(path.relative_to(folder.parent)))
            entry.mtime = seconds
            if path.is_symlink():
                entry.type, entry.mode = tarfile.SYMTYPE, 0o777
                entry.linkname = str(path.readlink())
                tar.addfile(entry)
            elif path.is_dir():
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(entry)
            else:
                status = path.stat()
                entry.size = status.st_size
                entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
                with path.open("rb") as content:
                    tar.addfile(entry, content)


def build(step: Step, release: Release, source: Path, folder: Path) -> None:
    maps = (f"-ffile-prefix-map={folder}={release.source_prefix}/build "
            f"-ffile-prefix-map={source}={release.source_prefix}")
    variables = {"SOURCE_DATE_EPOCH": str(release.seconds)}
    step.run("cmake", "--preset", "release", "-B", folder, "-DNEAR_LINT=OFF",
             "-DCMAKE_INSTALL_LIBDIR=lib", f"-DCMAKE_C_FLAGS={maps}", f"-DCMAKE_CXX_FLAGS={maps}",
             "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--build-id=sha1", folder=source, variables=variables)
    step.run("cmake", "--build", folder, "--target", *TARGETS, variables=variables)


def install(step: Step, tree: Path, folder: Path) -> None:
    """Installs the build tree into the folder, which becomes the prefix."""
    step.run("cmake", "--install", tree, "--prefix", folder)


def split_debug(step: Step, installed: Path, debug: Path) -> None:
    """Moves the debug information of the shared libraries to the folder `debug`; the static ones
    lose theirs."""
    (debug / DEBUG_FOLDER).mkdir(parents=True)
    shared = [path for path in sorted(installed.glob("lib/*.so*")) if not path.is_symlink()]
    static = sorted(installed.glob("lib/*.a"))
    if not shared or not static:
        step.fail(f"{installed}/lib lacks libraries")
    for library in shared:
        file = debug / DEBUG_FOLDER / f"{library.name}.debug"
        step.run("objcopy", "--only-keep-debug", library, file)
        file.chmod(0o644)
        step.run("objcopy", "--strip-unneeded", f"--add-gnu-debuglink={file}", library)
    for library in static:
        step.run("objcopy", "--enable-deterministic-archives", "--strip-debug", library)


def write_manifest(installed: Path, debug: Path) -> None:
    """Lists what `rm -rf` in the prefix has to remove: each file, or its outermost folder that has
    this project's name."""
    (installed / MANIFEST).parent.mkdir(parents=True, exist_ok=True)
    (installed / MANIFEST).touch()
    lines = set()
    for root in (installed, debug):
        for path in root.rglob("*"):
            if path.is_symlink() or path.is_file():
                parts = path.relative_to(root).parts
                own = next((number for number, part in enumerate(parts)
                            if part.startswith(OWN_NAME)), len(parts))
                lines.add("/".join(parts[:own + 1]))
    (installed / MANIFEST).write_text("".join(f"{line}\n" for line in sorted(lines)),
                                      encoding="utf-8")


def write_checksums(archives: list[Path], file: Path) -> None:
    """Writes the format of sha256sum."""
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
             for path in sorted(archives))
    file.write_text("".join(lines), encoding="utf-8")
