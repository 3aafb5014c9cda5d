#!/usr/bin/env python3
"""Runs a fuzz target on its corpus and on inputs that libFuzzer makes of it.

    run.py TARGET --length BYTES [--runs N] [--seconds S] [--seed N] [--keep FOLDER]

With --runs the inputs are the same each time: so many, from a fixed seed. Without, they go on for
--seconds from a seed that is drawn and printed. The committed corpus (corpus/<target>) is only
read. An input that fails is kept in the build folder, and the command that plays it again is
printed. The last line is "cases: N".
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = 2026


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--length", type=int, required=True, help="of an input, at most")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seconds", type=int, help="at most")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", type=Path, help="where inputs that reach more code are left")
    return parser.parse_args()


def command(arguments: argparse.Namespace, name: str, found: Path, crashes: Path) -> list[str]:
    seed = arguments.seed or (SEED if arguments.runs else random.randrange(1, 1 << 31))
    words = [str(arguments.target), str(found), str(HERE / "corpus" / name), f"-seed={seed}",
             f"-max_len={arguments.length}", f"-artifact_prefix={crashes}/{name}-",
             "-timeout=60", "-print_final_stats=1", "-verbosity=1"]
    dictionary = HERE / f"{name}.dict"
    if dictionary.exists():
        words.append(f"-dict={dictionary}")
    if arguments.runs:
        words.append(f"-runs={arguments.runs}")
    if arguments.seconds:
        words.append(f"-max_total_time={arguments.seconds}")
    return words


def environment() -> dict[str, str]:
    """Freed memory of the harness is kept briefly; a report has names if that is possible."""
    variables = os.environ | {"ASAN_OPTIONS": "quarantine_size_mb=16"}
    for name in ("llvm-symbolizer-19", "llvm-symbolizer"):
        if path := shutil.which(name):
            return variables | {"ASAN_SYMBOLIZER_PATH": path}
    return variables


def settings() -> str:
    """The variables of this process that the target depends on, as a shell takes them."""
    names = [name for name in os.environ if name.startswith(("NEARMALLOC_", "NEAR_FAKE_OS",
                                                             "NEAR_FUZZ_"))]
    return "".join(f"{name}='{os.environ[name]}' " for name in sorted(names))


def main() -> int:
    arguments = parse()
    name = arguments.target.name.removeprefix("fuzz_")
    crashes = arguments.target.parent / "crashes"
    crashes.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder)
        words = command(arguments, name, found, crashes)
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False,
                              env=environment())
        new = sorted(found.iterdir())
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            for each in new:
                shutil.copy(each, arguments.keep / each.name)
    cases = re.findall(r"^cases: (\d+)$", done.stderr, re.MULTILINE)
    seed = next(word for word in words if word.startswith("-seed="))
    print(f"{name}: {seed.removeprefix('-')}, {len(new)} inputs reached more than the corpus")
    if done.returncode != 0:
        wrong = re.findall(r"^wrong: .*$", done.stderr, re.MULTILINE)
        print("\n".join(wrong), done.stderr[-6000:], sep="\n")
        for crash in re.findall(r"Test unit written to (\S+)", done.stderr):
            print(f"again: {settings()}{arguments.target} {crash}")
        print(f"again, from the start: {settings()}{' '.join(words[:1] + words[2:])}")
        return 1
    print(f"cases: {cases[-1] if cases else 0}")
    return 0 if cases and int(cases[-1]) > 0 else 1


sys.exit(main())
