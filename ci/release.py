#!/usr/bin/env python3
"""Makes the archives of a release of the checked-out commit, and tests them.

Exit status: 0 success; 1 a step failed, and its log is named; 2 wrong usage or a missing program.
docs/releasing.md is the manual.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from release_archives import (
    ROOT,
    build,
    copy_source,
    current_release,
    install,
    pack,
    refuse_changes,
    split_debug,
    write_checksums,
    write_manifest,
)
from release_steps import BUILD_TOOLS, TEST_TOOLS, NotReady, Step, StepFailed, require
from release_trial import Trial, unpack


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="release.py",
                                     description="Makes and tests the archives of a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "build/release-archives",
                        help="the folder of the archives and logs (build/release-archives)")
    parser.add_argument("--build", type=Path, metavar="DIR",
                        help="take the libraries of this build tree, which makes no reproducible "
                             "archive; otherwise the source archive is built")
    parser.add_argument("--no-test", action="store_true", help="do not test the archives")
    parser.add_argument("--allow-dirty", action="store_true",
                        help="take tracked files as they are, changed or not")
    return parser.parse_args()


def release(arguments: argparse.Namespace, room: Path) -> None:
    out = arguments.out.resolve()
    logs = out / "log"
    logs.mkdir(parents=True, exist_ok=True)
    version = current_release()
    source, installed, debug = (room / name for name in (version.source, version.binary,
                                                         version.debug))
    archives = [out / f"{folder.name}.tar.xz" for folder in (source, installed, debug)]

    Step(logs, "source")
    copy_source(source)
    pack(source, archives[0], version.seconds)

    tree = room / "build"
    if arguments.build:
        tree = arguments.build.resolve()
    else:
        step = Step(logs, "build")
        unpacked = room / "unpacked"
        unpack(step, archives[0], unpacked)
        build(step, version, unpacked, tree)

    step = Step(logs, "binary")
    install(step, tree, installed)
    split_debug(step, installed, debug)
    write_manifest(installed, debug)
    pack(installed, archives[1], version.seconds)
    pack(debug, archives[2], version.seconds)
    write_checksums(archives, out / "SHA256SUMS")

    if not arguments.no_test:
        Trial(logs, out, version, room).all(tree)
    for archive in archives:
        print(f"{archive.stat().st_size / 2**20:6.2f} MiB  {archive}")


def main() -> int:
    arguments = parsed()
    try:
        require(BUILD_TOOLS if arguments.no_test else BUILD_TOOLS | TEST_TOOLS)
        if not arguments.allow_dirty:
            refuse_changes()
        with tempfile.TemporaryDirectory(prefix="nearmalloc-release-") as room:
            release(arguments, Path(room).resolve())
    except NotReady as why:
        print(f"release.py: {why}", file=sys.stderr)
        return 2
    except (StepFailed, OSError) as failed:
        print(f"release.py: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
