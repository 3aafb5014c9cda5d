"""Building: CMake configures a tree if that is needed, ninja builds targets.

Requires: the caller holds the tree's lock.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from neardriver import ninja_log, packages, paths
from neardriver.messages import Failure
from neardriver.progress import Step
from neardriver.seconds import SECONDS
from neardriver.trees import TREES

_STEP = re.compile(r"\[(\d+)/(\d+)\]")
_FAULT = re.compile(r"FAILED|error")
_CONFIGURE_SECONDS = 12.0


def processors() -> int:
    return len(os.sched_getaffinity(0))


def is_stale(tree: Path, log: Path, definitions: tuple[str, ...]) -> bool:
    """Whether the tree is new, its preset or the packages changed, or a definition differs."""
    if not (tree / "build.ninja").exists() or not log.exists():
        return True
    for source in (paths.ROOT / "CMakePresets.json", packages.INSTALLED):
        if source.exists() and source.stat().st_mtime_ns >= log.stat().st_mtime_ns:
            return True
    # The cache gives every entry a type: NAME:TYPE=VALUE.
    cached = (tree / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    known = {re.sub(":[A-Z]+=", "=", line, count=1) for line in cached}
    return not known.issuperset(definitions)


def configure(preset: str, *definitions: str) -> None:
    tree, log = paths.tree(preset), paths.log(f"configure-{preset}")
    if not is_stale(tree, log, definitions):
        return
    command = ["cmake", "--preset", preset, *(f"-D{each}" for each in definitions)]
    with (SECONDS.step("configure", preset),
          Step(f"configuring {preset}").start(_CONFIGURE_SECONDS), log.open("wb") as file):
        done = subprocess.run(command, cwd=paths.ROOT, stdin=subprocess.DEVNULL, stdout=file,
                              stderr=file, check=False)
        if done.returncode != 0:
            os.utime(log, (0, 0))  # the tree stays stale
            print("\n".join(log.read_text(errors="replace").splitlines()[-30:]), file=sys.stderr)
            raise Failure(f"cannot configure {preset} (see build/logs/configure-{preset}.log)")


def compile_targets(preset: str, *targets: str) -> None:
    tree, log = paths.tree(preset), paths.log(f"build-{preset}")
    jobs = processors()
    expected = ninja_log.seconds_per_step(tree) or TREES[preset].seconds_per_step
    command = ["ninja", "-C", str(tree), "-j", str(jobs), *targets]
    with (SECONDS.step("build", preset), Step(f"building {preset}") as step,
          log.open("w", buffering=1) as file):
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as ninja:
            assert ninja.stdout is not None
            for line in ninja.stdout:
                file.write(line)
                found = _STEP.match(line)
                if found and "Re-checking globbed" not in line:
                    done, total = int(found[1]), int(found[2])
                    step.start(expected * total / jobs).update(done, total)
        if ninja.returncode != 0:
            step.tell(faults(log.read_text(errors="replace")))
            raise Failure(f"cannot build {preset} (see build/logs/build-{preset}.log)")


def faults(text: str) -> str:
    """The lines of a failed build that say why, at most forty."""
    shown: list[str] = []
    following = 0
    for line in text.splitlines():
        following = 13 if _FAULT.search(line) else following - 1
        if following > 0:
            shown.append(line[:300])
    return "\n".join(shown[:40])
