"""A profile that the library wrote as JSON, or kept in a file, with names."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmalloc_tools.profile import kept, perf_map
from nearmalloc_tools.profile.symbols import Frame, Module, Symbols

MEASURES = ("live", "peak", "allocated", "remote", "moved", "waste")
# The bounds of `by_lifetime`, in seconds; the last count has none.
LIFETIMES = (1e-3, 1e-2, 1e-1, 1, 10, 100)
LAST_NODE = 7  # of `freed_on_node`: it stands for all nodes from there on
# Frames of malloc's family, in a program that is linked to the archive of the library, and what the
# libraries of C++ and Rust have between it and containers. Functions of a namespace without a name
# are known by their files.
_OWN = ("near::", "malloc", "calloc", "realloc", "operator new", "posix_memalign", "aligned_alloc")
_OF_LANGUAGES = (
    *("std::__new_allocator<", "__gnu_cxx::new_allocator<", "std::allocator<"),
    *("std::allocator_traits<", "alloc::alloc::", "<alloc::alloc::Global", "alloc::raw_vec::"),
    *("__rust_alloc", "__rust_realloc", "__rdl_alloc", "__rdl_realloc"),
)
_OWN_FILE = re.compile(r"/malloc/(front|heap|profile|shim)/\w+\.(cc|h):")
# A function of C whose name ends so serves the whole program: its caller says more. The callers of
# what cgo generates are Go's, and not on the stack.
_WRAPPER = re.compile(
    r"(?!_cgo_)\w*(?:(?<![Dd]e)[Aa]lloc|ALLOC|strn?dup|memdup)"
    r"(?:_?(?:[0-9nxz]|NN|[Aa]ligned|[Aa]rray|[Ee]xtended|[Ff]inish|[Ii]nternal|NoTrack|[Rr]aw"
    r"|[Uu]sable|[Zz]ero))*"
)


def named_frame(stack: Sequence[Frame]) -> int:
    """The index of the frame that names a site: the innermost one that is not the program's own
    malloc; 0 if there is none."""
    for index, frame in enumerate(stack):
        if not _WRAPPER.fullmatch(frame.function):
            return index
    return 0


def mean(whole: float | None, count: float) -> float | None:
    """None if the whole is not known, or nothing is in it."""
    return whole / count if whole is not None and count > 0 else None


@dataclass(frozen=True, slots=True)
class Site:
    """A stack, the innermost frame first, and what was sampled there. Numbers are bytes."""

    stack: list[Frame]
    samples: int
    sums: dict[str, int]
    blocks: float  # allocated
    live_blocks: float
    freed: int
    deviation: float  # of the allocated bytes
    live_deviation: float
    mean_life: float  # seconds
    freed_by_heap: list[tuple[int, int]]  # the first few heaps
    freed_by_others: int = 0
    live_waste: int = 0  # bytes of live blocks beyond what was asked for
    freed_on_node: list[tuple[int, float]] = field(default_factory=list)
    longest_life: float = 0.0  # seconds
    by_lifetime: list[float] = field(default_factory=list)  # freed blocks
    number: int = 0
    remote_blocks: float = 0.0  # freed by other threads
    remote_seconds: float | None = None  # the sum of their lives; None: not known
    moved_distance: int | None = None  # bytes freed on other nodes x the distance; None: not known

    @property
    def remote_life(self) -> float | None:
        """The mean life, in seconds, of the blocks that other threads freed; None: not known."""
        return mean(self.remote_seconds, self.remote_blocks)

    @property
    def distance(self) -> float | None:
        """How far on average the blocks that were freed on other nodes were; None: not known."""
        return mean(self.moved_distance, self.sums["moved"])

    @property
    def size(self) -> float:
        """The mean of the bytes that were asked for."""
        return self.sums["allocated"] / self.blocks if self.blocks else 0.0

    @property
    def block_size(self) -> float:
        return (self.sums["allocated"] + self.sums["waste"]) / self.blocks if self.blocks else 0.0

    @property
    def frame(self) -> Frame:
        """The function that names the site: the innermost one that does more than allocate."""
        return self.stack[named_frame(self.stack)] if self.stack else Frame("(no stack)", "")

    @property
    def caller(self) -> str:
        """Its name."""
        return self.frame.function

    @property
    def short(self) -> str:
        """Its name as people say it."""
        return self.frame.short

    @property
    def wrapper(self) -> str:
        """The program's own malloc that it called; empty if it called malloc itself."""
        return self.stack[0].short if named_frame(self.stack) > 0 else ""


@dataclass(frozen=True, slots=True)
class Profile:
    """All sites of a process."""

    summary: dict[str, Any]  # the numbers of the whole
    sites: list[Site]

    def sum_of(self, measure: str) -> int:
        return sum(site.sums[measure] for site in self.sites)


def _is_own(frame: Frame) -> bool:
    names = (*_OWN, *_OF_LANGUAGES)
    return frame.function.startswith(names) or bool(_OWN_FILE.search(frame.place))


def _site(plain: dict[str, Any], symbols: Symbols) -> Site:
    stack = [frame for address in plain["frames"] for frame in symbols.frames(address)]
    while len(stack) > 1 and _is_own(stack[0]):
        del stack[0]
    blocks = plain["freed"]["blocks"]
    return Site(
        stack=stack,
        samples=plain["samples"],
        sums={name: plain[name]["bytes"] for name in MEASURES[:-1]} | {"waste": plain["waste"]},
        blocks=plain["allocated"]["blocks"],
        live_blocks=plain["live"]["blocks"],
        freed=plain["freed"]["bytes"],
        deviation=max(plain["variance"], 0) ** 0.5,
        live_deviation=max(plain["live_variance"], 0) ** 0.5,
        mean_life=plain["lifetimes"] / blocks if blocks else 0.0,
        freed_by_heap=[(heap, size) for heap, size in plain["freed_by_heap"]],
        freed_by_others=plain["freed_by_others"],
        live_waste=plain["live_waste"],
        freed_on_node=[(node, size) for node, size in enumerate(plain["freed_on_node"]) if size],
        longest_life=plain["longest"],
        by_lifetime=plain["by_lifetime"],
        number=plain["number"],
        remote_blocks=plain["remote"]["blocks"],
        # Earlier versions do not write these two.
        remote_seconds=plain.get("remote_lifetimes"),
        moved_distance=plain.get("moved_distance"),
    )


def read(path: Path) -> Profile:
    """Reads a profile; ValueError if the file is none."""
    return with_names(read_plain(path))


def read_plain(path: Path) -> dict[str, Any]:
    """Reads a profile without the names of its addresses; ValueError if the file is none."""
    with path.open("rb") as stream:
        data, user = stream.read(), os.fstat(stream.fileno()).st_uid
    if data.startswith(kept.MAGIC):
        return kept.parse(data) | {"user": user}
    try:
        plain = json.loads(data.decode(errors="surrogateescape"))  # paths may have any bytes
    except (RecursionError, ValueError):
        plain = None
    if not isinstance(plain, dict) or plain.get("version") != 1:
        raise ValueError(f"{path} is no profile of nearmalloc in JSON")
    return plain | {"user": user}


def with_names(plain: dict[str, Any]) -> Profile:
    """A profile from the object that the library wrote, and the number of the `user` it ran as."""
    modules = [Module(**module) for module in plain.pop("modules")]
    sites = plain.pop("sites")
    addresses = [address for site in sites for address in site["frames"]]
    compiled = perf_map.read(plain["pid"], plain["started"], plain["user"])
    symbols = Symbols(modules, addresses, compiled)
    return Profile(plain, [_site(site, symbols) for site in sites])
