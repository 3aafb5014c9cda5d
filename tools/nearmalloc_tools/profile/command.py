"""`nearmalloc profile -- PROGRAM`: runs a program under the profiler, and writes a page."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from nearmalloc_tools.amounts import amount
from nearmalloc_tools.errors import Refused, say
from nearmalloc_tools.profile.browser import offer
from nearmalloc_tools.profile.leaked import Leaked, confidence
from nearmalloc_tools.profile.page import build
from nearmalloc_tools.profile.profile import Profile, read
from nearmalloc_tools.profile.running import environment, profiles, run

_TOP = 3
_NOT_ASKED = "nobody looked for them: --no-leaks"


def largest(folder: Path) -> tuple[Profile, int]:
    """The profile of the process that allocated most, and how many there are."""
    found = profiles(folder)
    if not found:
        raise Refused(
            "no process of the program took a sample: it allocated too little for this --interval, "
            "is static and was linked without nearmalloc, is set-uid, or has another malloc"
        )
    return read(max(found, key=found.__getitem__)), len(found)


def summary(profile: Profile, leaked: Leaked, page: Path) -> list[str]:
    """What the page says, in a few lines."""
    live = profile.sum_of("live")
    lines = [
        f"process {profile.summary['pid']}: {amount(live)} live at the end, "
        f"{amount(profile.sum_of('peak'))} at the peak, "
        f"{amount(profile.sum_of('allocated'))} allocated at {len(profile.sites)} sites"
    ]
    measure, words = ("live", "live") if live else ("allocated", "allocated")
    for site in sorted(profile.sites, key=lambda each: -each.sums[measure])[:_TOP]:
        if site.sums[measure] > 0:
            size = amount(site.sums[measure])
            lines.append(f"  {size:>10} {words}: {site.short}  {site.frame.place}".rstrip())
    for leak in [one for one in leaked.leaks if confidence(one) == "high"][:_TOP]:
        site = leak.site
        lines.append(f"  {amount(leak.bytes):>10} lost: {site.short}  {site.frame.place}".rstrip())
    return [*lines, f"the page is {page}"]


def write(profile: Profile, leaked: Leaked, title: str, page: Path, note: str = "") -> None:
    page.write_text(build(profile, title, leaked), encoding="utf-8")
    *lines, last = summary(profile, leaked, page)
    for line in [*lines, last + note]:
        say(line)


def _last_look() -> Any:
    """What searches for leaks, which takes long to load."""
    from nearmalloc_tools.profile.last_look import LastLook

    return LastLook()


def profile(
    command: list[str], out: Path, interval: int, leaks: bool, open_page: bool | None
) -> int:
    """Runs the program, writes the page, and opens it; returns the program's status."""
    # Every user may read the files of profiles, so no other user may enter their folder.
    with (
        tempfile.TemporaryDirectory(prefix="near-profile-") as folder,
        _last_look() if leaks else nullcontext() as last_look,
    ):
        files = Path(folder)
        variables = environment(interval, files, last_look)
        status = run(command, variables, files, last_look)
        found, processes = largest(files)
    leaked = last_look.of(found.summary["pid"]) if last_look else Leaked(unknown=_NOT_ASKED)
    note = f" (about the largest of {processes} processes)" if processes > 1 else ""
    write(found, leaked, f"Memory of {Path(command[0]).name}", out, note)
    offer(out, open_page)
    return status if status >= 0 else 128 - status
