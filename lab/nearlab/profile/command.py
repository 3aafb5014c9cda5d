"""`./near profile -- PROGRAM`: runs a program under the profiler, and writes a page."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from nearlab import alone
from nearlab.profile.page import amount, build
from nearlab.profile.profile import Profile, read


class Refused(Exception):
    """The program cannot be profiled."""


def _run(command: list[str], library: Path, interval: int, folder: Path) -> int:
    """Runs the program; every process of it writes its profile into the folder."""
    preload = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    variables = os.environ | {
        "LD_PRELOAD": ":".join(preload),
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": str(interval),
        "NEARMALLOC_PROFILE_FORMAT": "json",
        "NEARMALLOC_PROFILE_FILE": f"{folder}/%p.json",
    }
    # The program's environment is the caller's, except for the profiler: this module's own
    # variables would change how a Python program runs.
    for name in ("NEAR_LIBRARY", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        variables.pop(name, None)
    try:
        return subprocess.run(command, env=variables, check=False).returncode
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}") from error


def _largest(folder: Path) -> tuple[Profile, int]:
    """The profile with most bytes, and how many there are."""
    profiles = [read(path) for path in sorted(folder.glob("*.json")) if path.stat().st_size > 0]
    if not profiles:
        raise Refused(
            "the program wrote no profile: it ended by a signal or by _exit, is static or set-uid, "
            "or has another malloc"
        )
    return max(profiles, key=lambda profile: profile.sum_of("allocated")), len(profiles)


def profile(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT...]")],
    out: Annotated[Path, typer.Option(help="the page")] = Path("near-profile.html"),
    interval: Annotated[
        int, typer.Option(min=1, max=10**9, help="bytes between two samples, on average")
    ] = 524288,
) -> None:
    """Runs a program under the sampling profiler, and writes one page about its memory.

    If it has several processes, the page is about the one that allocated most.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="near-profile-") as folder:
            library = Path(os.environ["NEAR_LIBRARY"])
            status = _run(command, library, interval, Path(folder))
            found, processes = _largest(Path(folder))
        out.write_text(build(found, f"Memory of {Path(command[0]).name}"), encoding="utf-8")
    except (Refused, OSError) as refusal:
        print(f"near: {refusal}", file=sys.stderr)
        sys.exit(1)
    of = f" (the largest of {processes} processes)" if processes > 1 else ""
    print(
        f"near: {out}: {amount(found.sum_of('allocated'))} allocated at {len(found.sites)} sites, "
        f"{amount(found.sum_of('live'))} live at the end{of}",
        file=sys.stderr,
    )
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    alone.run(profile, "profile")
