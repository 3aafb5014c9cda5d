"""How much of a workload's instructions are its own: the harness, not the allocator.

Callgrind counts from the begin of the measured region; after 10^7 basic blocks, or at the
region's end, it writes what it has, and the program is ended. The allocator's part is the inclusive
cost of the calls that enter it: of any function of a preloaded library, except one that starts a
thread (the thread's work is the program's), and of the malloc family in glibc. Invariant: a share
comes only from a region that entered the allocator; every other case has a failure text.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearlab.measure import callgrind
from nearlab.measure.callgrind import Count

_TIMEOUT_S = 180
_POLL_S = 0.05
_OPTIONS = (
    "--zero-before=workload_region_begins",
    "--dump-before=workload_region_ends",
    "--dump-every-bb=10000000",
)
_FAMILY = re.compile(
    r"(__libc_)?(malloc|calloc|realloc|free|memalign|aligned_alloc|posix_memalign|valloc|pvalloc)"
    r"(@@?[\w.]+)?('\d+)?"
)
_NAMED = re.compile(r"\((\d+)\)(?: (.*))?")


@dataclass(frozen=True, slots=True)
class Share:
    """The harness's part of the instructions, or the reason why there is none."""

    value: float | None
    failure: str | None = None


def share(
    argv: Sequence[str | Path],
    library: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Share:
    """Measures a workload under an allocator; None is glibc's."""
    found: list[Share] = []

    def watch(dump: Path, running: callgrind.Running) -> Count:
        """Waits for the first counts, which name the process and a number."""
        first = dump.with_name(f"{dump.name}.1")
        deadline = time.monotonic() + _TIMEOUT_S
        while not _is_whole(first):
            if running.poll() is not None and not _is_whole(first):
                return Count(None, "the region gave no counts")
            if time.monotonic() > deadline:
                return Count(None, f"timed out under callgrind after {_TIMEOUT_S} s")
            time.sleep(_POLL_S)
        with first.open(errors="replace") as lines:
            found.append(of_counts(lines, str(Path(library).resolve()) if library else None))
        return Count(None, found[0].failure)

    ended = callgrind.run(argv, library, env, watch, _OPTIONS)
    return found[0] if found else Share(None, ended.failure)


def _is_whole(counts: Path) -> bool:
    return counts.is_file() and "\ntotals:" in counts.read_text(errors="replace")[-400:]


def of_counts(lines: Iterable[str], library: str | None) -> Share:
    """The share from callgrind's file. `fn` and `cfn` are a caller and a callee, `ob` and `cob`
    their files; the line after `calls` has the inclusive cost of the calls."""
    names: dict[tuple[str, str], str] = {}
    now = {"ob": "", "fn": "", "cob": "", "cfn": ""}
    inside = total = 0
    is_call = False
    for line in lines:
        key, equals, rest = line.rstrip("\n").partition("=")
        if equals and key in now:
            now[key] = _name(names, key.removeprefix("c"), rest)
            if key in ("ob", "fn"):
                now["cob"] = ""
        elif equals and key == "calls":
            is_call = True
        elif is_call:
            if _enters(now, library):
                inside += int(line.split()[1])
            is_call, now["cob"] = False, ""
        elif line.startswith("totals:"):
            total = int(line.split()[1])
    if not inside or not total:
        return Share(None, "the region did not enter the allocator")
    return Share(1 - min(inside, total) / total)


def _name(names: dict[tuple[str, str], str], kind: str, text: str) -> str:
    """A name is written once, as `(number) name`, and later as `(number)`."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return text
    if match[2] is not None:
        names[kind, match[1]] = match[2]
    return names.get((kind, match[1]), "")


def _enters(now: Mapping[str, str], library: str | None) -> bool:
    """Whether the call enters the allocator from outside."""
    caller, callee = now["ob"], now["cob"] or now["ob"]
    if library is not None:
        starts_a_thread = now["fn"] == "start_thread" or now["cfn"] == "pthread_create"
        return callee == library != caller and not starts_a_thread
    return bool(_FAMILY.fullmatch(now["cfn"])) and not _FAMILY.fullmatch(now["fn"])
