"""Counts the calls of the malloc family that a program makes, and estimates the time inside them.

`count` runs the program with libcount.so (lab/bench/count.c) before its allocator. Invariant: the
counts cover the program and all its children, up to a crash or _exit; a call by way of operator
new or delete counts once, as malloc or free (as aligned with an alignment), and what the allocator
calls itself is not counted. A counting run is slower than others: its seconds are no measurement.
"""

import builtins
import contextlib
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from nearlab import peers, places
from nearlab.measure import measure, proof
from nearlab.measure.measure import Sample
from nearlab.peers import Allocator

# The layout of `struct slot` in lab/bench/count.c.
_SLOTS, _SLOT_BYTES = 16, 128
_FIELDS = ("malloc", "calloc", "realloc", "aligned", "free", "free_null")
_SLOT = struct.Struct("=10Q")


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of all processes together; `free` has a block, `free_null` has none."""

    malloc: int
    calloc: int
    realloc: int
    aligned: int  # posix_memalign, aligned_alloc, memalign, valloc, pvalloc, aligned new
    free: int
    free_null: int
    bytes: int  # bytes that the program requested
    samples: int  # calls that were timed
    sampled_ns: int
    processes: int  # processes that had the counter loaded

    @property
    def total(self) -> int:
        return sum(getattr(self, name) for name in _FIELDS)

    @property
    def ns_in_malloc(self) -> float:
        """Time in the whole family, from the samples; 0 when there are none."""
        return self.sampled_ns / self.samples * self.total if self.samples else 0.0

    @classmethod
    def parse(cls, data: builtins.bytes) -> Self:
        slots = (_SLOT.unpack_from(data, index * _SLOT_BYTES) for index in range(_SLOTS))
        return cls(*(sum(column) for column in zip(*slots, strict=True)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"ns_in_malloc": round(self.ns_in_malloc)}


@dataclass(frozen=True, slots=True)
class Counted:
    """A counting run. Its calls are valid only if `failure` is None."""

    calls: Calls
    sample: Sample | None
    failure: str | None

    @property
    def malloc_share(self) -> float | None:
        """Returns the share of the run's CPU time in the malloc family. The CPU time includes the
        counting, so the share of a program that does little else is too low; it is never too high.
        """
        if self.failure or self.sample is None or self.sample.cpu_s <= 0:
            return None
        return min(1.0, self.calls.ns_in_malloc / 1e9 / self.sample.cpu_s)


def library() -> Path:
    path = places.count_library()
    if not path.is_file():
        raise measure.MeasureError(f"{path} is missing: build it with `./near build`")
    return path


def count(
    argv: Sequence[str | Path],
    allocator: Allocator,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Counted:
    """Runs a program to its end under `allocator` and counts its calls."""
    with children() as calls:
        sample = measure.run_child(
            argv,
            preload=allocator.library,
            env=dict(allocator.environment) | dict(env or {}),
            timeout=timeout,
        )
        found = calls()
    return Counted(found, sample, _failure(found, sample, allocator))


@contextlib.contextmanager
def children() -> Iterator[Callable[[], Calls]]:
    """Within this context every measured child is counted; yields a function that reads the sum."""
    with tempfile.NamedTemporaryFile(prefix="count.") as file:
        file.truncate(_SLOTS * _SLOT_BYTES)
        with measure.children(before=[library()], env={"LAB_COUNT_FILE": file.name}):
            yield lambda: Calls.parse(Path(file.name).read_bytes())


def _failure(calls: Calls, sample: Sample, allocator: Allocator) -> str | None:
    if failure := sample.failure():
        return failure
    if calls.processes == 0:
        return "the counter was not loaded"
    plain = peers.switched(allocator.name)[0]
    wanted = proof.allocator_name(allocator.library) if allocator.library else plain
    if sample.served_by != wanted:
        return f"served by {sample.served_by}"
    return None
