"""Peers whose source comes as a crate, instrumented by the compiler flags that crates pass on. The
lab has a cdylib around each in lab/peers; those of mimalloc 2 and 3 are in manycore/peers.

Invariant: as nearlab.peers.crates; instrumented libraries are in build/manycore/peers, others in
the lab's folder.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from nearlab import places as lab
from nearlab.peers.crates import Crate
from nearmanycore import places

INSTRUMENTED = ["-g", "-fPIC", "-fsanitize=thread", "-fsanitize-coverage=trace-pc", "-fno-builtin"]


@dataclass(frozen=True, slots=True)
class Peer(Crate):
    instrumented: bool = True

    @property
    def folder(self) -> Path:
        own = places.PEERS / self.name
        return own if own.is_dir() else lab.crates_dir() / self.name

    @property
    def built_in(self) -> Path:
        return places.build() / "peers" if self.instrumented else lab.peers_build()

    @property
    def _no_trace(self) -> Path:
        return self.built_in / "no_trace.o"

    def environment(self) -> dict[str, str]:
        if not self.instrumented:
            return {}
        flags = " ".join(INSTRUMENTED)
        link = str(self._no_trace)
        build = {"CC": "gcc", "CXX": "g++", "CFLAGS": flags, "CXXFLAGS": flags, "LDFLAGS": link}
        return build | {"CARGO_PROFILE_RELEASE_STRIP": "none"}  # names and lines of the peer

    def build(self) -> None:
        """Also makes an object with the function that coverage calls: a crate's script may link
        programs to look at the compiler."""
        if self.instrumented and not self.find():
            self.built_in.mkdir(parents=True, exist_ok=True)
            source = "void __sanitizer_cov_trace_pc(void) {}\n"
            command = ["gcc", "-xc", "-", "-c", "-o", str(self._no_trace)]
            subprocess.run(command, input=source, text=True, check=True, capture_output=True)
        Crate.build(self)


_CRATES = {
    "mimalloc3": ("mimalloc3", "libmimalloc-sys"),
    "mimalloc2": ("mimalloc2", "libmimalloc-sys"),
    "jemalloc": ("jemalloc5.3.1", "tikv-jemalloc-sys"),
    "snmalloc": ("snmalloc", "snmalloc-sys"),
    "rpmalloc": ("rpmalloc", "rpmalloc-sys"),
}
NAMES = tuple(_CRATES)


def get(name: str, instrumented: bool = True) -> Peer:
    """The crate of one of NAMES; one that is not instrumented runs on real processors."""
    folder, dependency = _CRATES[name]
    return Peer(folder, dependency, instrumented=instrumented)
