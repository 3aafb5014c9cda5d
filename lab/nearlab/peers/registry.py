"""The list of allocators: names, labels, groups, where each is from and how to ask its version.

Invariant: a name is known here or nowhere; the designs of the papers are known at all times, and
listed where their library is built.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from nearlab import places
from nearlab.peers import debian, own, versions
from nearlab.peers.allocator import Allocator, Source
from nearlab.peers.crates import Crate
from nearlab.peers.debian import DebianPackage
from nearlab.peers.own import Built
from nearlab.peers.pypi import PythonPackage


@dataclass(frozen=True, slots=True)
class _Entry:
    label: str
    source: Source
    version: str  # an expression over `versions`, evaluated inside a process it serves
    group: str = "peer"
    environment: tuple[tuple[str, str], ...] = ()


_CRATE_VERSION = "text('lab_peer_version')"
# A thread may have one rseq area. glibc registers it, but google/tcmalloc has to register its own.
_OWN_RSEQ = (("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),)

_ENTRIES = {
    "nearmalloc": _Entry(
        "nearmalloc", Built(places.nearmalloc_library), "text('near_version')", "ours"
    ),
    "mimalloc3": _Entry(
        "mimalloc 3",
        PythonPackage("cmeel.prefix/lib/libmimalloc.so", "cmeel-mimalloc", "==3.4.*"),
        "mimalloc()",
    ),
    "mimalloc2": _Entry(
        "mimalloc 2", DebianPackage("libmimalloc.so.2", "libmimalloc2.0"), "mimalloc()"
    ),
    "jemalloc": _Entry("jemalloc", DebianPackage("libjemalloc.so.2", "libjemalloc2"), "jemalloc()"),
    "jemalloc5.3.1": _Entry(
        "jemalloc 5.3.1", Crate("jemalloc5.3.1", "tikv-jemalloc-sys"), _CRATE_VERSION
    ),
    "tcmalloc": _Entry(
        "gperftools",
        DebianPackage("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
        "tcmalloc()",
    ),
    "google-tcmalloc": _Entry(
        "google/tcmalloc",
        Crate("google-tcmalloc", "libtcmalloc-sys", "8 KiB pages"),
        _CRATE_VERSION,
        environment=_OWN_RSEQ,
    ),
    "snmalloc": _Entry("snmalloc", Crate("snmalloc", "snmalloc-sys"), _CRATE_VERSION),
    "rpmalloc": _Entry("rpmalloc", Crate("rpmalloc", "rpmalloc-sys", "-O2"), _CRATE_VERSION),
    "tbb": _Entry("oneTBB", DebianPackage("libtbbmalloc_proxy.so.2", "libtbbmalloc2"), "tbb()"),
    "limit": _Entry("limit", Built(places.limit_library), versions.NONE, "bound"),
} | {name: _Entry(name, own.design(name), versions.NONE, "design") for name in own.DESIGNS}

NAMES = ("glibc", *_ENTRIES)
# An allocator with switches: NAME+switch:value, and more of them.
_VARIANT = re.compile(r"([\w.-]+?)((?:\+\w+:[^+,=]+)+)")
# Allocators that any machine has within minutes: only ours are compiled.
CORE = (
    *(() if places.INSTALLED else ("nearmalloc",)),
    *("glibc", "mimalloc3", "mimalloc2", "jemalloc", "tcmalloc"),
)


def known() -> tuple[str, ...]:
    """All names but those of designs that are not built, and of what an installed package lacks."""
    optional = ("design", "ours") if places.INSTALLED else ("design",)
    return tuple(
        name
        for name in NAMES
        if name == "glibc" or _ENTRIES[name].group not in optional or _ENTRIES[name].source.find()
    )


def is_name(name: str) -> bool:
    """True for each of NAMES, alone or with switches."""
    return name in NAMES or switched(name)[0] in NAMES


def switched(name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The name without its switches, and the variables that set them: a design has one variable
    for all of its own, for any other allocator a switch is a variable."""
    variant = _VARIANT.fullmatch(name)
    if variant is None:
        return name, ()
    pairs = [word.partition(":")[::2] for word in variant[2].removeprefix("+").split("+")]
    if variant[1] in own.DESIGNS:
        options = ",".join(f"{key}={value}" for key, value in pairs)
        return variant[1], (("NEARMALLOC_DESIGN_OPTIONS", options),)
    return variant[1], tuple(pairs)


def _variant(name: str) -> _Entry:
    """An allocator with the switches of its name."""
    plain, settings = switched(name)
    entry = _ENTRIES[plain]
    told = name.removeprefix(plain).removeprefix("+").replace("+", ",").replace(":", "=")
    environment = (*entry.environment, *settings)
    return replace(entry, label=f"{entry.label} {told}", environment=environment)


def find(name: str) -> Allocator:
    """One allocator by name (see NAMES), or a design with switches."""
    plain, settings = switched(name)
    if plain == "glibc":
        version = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")
        flags = debian.package_version("libc6")
        about = {"flags": flags, "group": "system" if name == plain else "peer"}
        return Allocator(name, name, None, version, environment=settings, **about)
    if not is_name(name):
        raise KeyError(f"unknown allocator {name}; there are {', '.join(NAMES)}")
    entry = _ENTRIES[name] if name in _ENTRIES else _variant(name)
    library = entry.source.find()
    if library is None:
        return Allocator(name, entry.label, None, "", entry.source.hint(), group=entry.group)
    if entry.version == versions.NONE and name in _ENTRIES:
        version, problem = versions.NONE, None  # it has no version, and no switches to be wrong
    else:
        version, problem = versions.ask(library, entry.version, entry.environment)
    return Allocator(
        name,
        entry.label,
        library,
        version,
        problem,
        entry.source.flags(),
        entry.group,
        entry.environment,
    )


def find_all(names: Sequence[str] | None = None) -> list[Allocator]:
    """The allocators of these names, in order. Each library is asked in a process of its own."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(find, names or known()))


def ensure(names: Sequence[str] | None = None) -> list[Allocator]:
    """As `find_all`, after an attempt to install what is missing: apt-get as root, pip in a venv,
    cargo."""
    chosen = names or known()
    sources = [_ENTRIES[name].source for name in chosen if name in _ENTRIES]
    debian.install(source for source in sources if isinstance(source, DebianPackage))
    for source in sources:
        if isinstance(source, PythonPackage):
            source.install()
        elif isinstance(source, Crate):
            source.build()
    return find_all(chosen)

