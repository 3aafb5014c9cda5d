"""The profile in JSON that a process sends through a socket when it ends.

Invariant: what `receive` returns has the shape of a profile, whatever the process sent.
"""

import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_MOST_BYTES = 16 << 20
_MOST_SECONDS = 60

Check = Callable[[Any], bool]


def _integer(below: int) -> Check:
    """From 0 on. A bool is none, though Python calls it one."""
    return lambda value: type(value) is int and 0 <= value < below


def _real(value: Any) -> bool:
    """A finite number. NaN is not, because it compares false."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _one(value: Any) -> bool:
    return type(value) is int and value == 1


def _list(of: Check, most: int, least: int = 0) -> Check:
    return lambda value: (
        isinstance(value, list) and least <= len(value) <= most and all(map(of, value))
    )


def _object(
    needed: dict[str, Check], optional: dict[str, Check] | None = None, closed: bool = False
) -> Check:
    """An object with these keys; if it is closed, with no other ones."""
    known = needed | (optional or {})

    def check(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and needed.keys() <= value.keys()
            and (not closed or value.keys() <= known.keys())
            and all(known[key](each) for key, each in value.items() if key in known)
        )

    return check


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


_COUNT, _CODE = _integer(1 << 63), _integer(1 << 64)  # some code is the kernel's
_PAIR = _list(lambda value: type(value) is int, 2, 2)
_WEIGHT = _object({"blocks": _real, "bytes": _COUNT})
_MODULE = _object(
    {"start": _CODE, "end": _CODE, "offset": _COUNT, "build_id": _text, "file": _text}, closed=True
)
_BLOCK = _object(
    {"address": _COUNT, "site": _COUNT, "blocks": _real, "bytes": _COUNT, "variance": _real}
)
_SITE = _object(
    {
        **dict.fromkeys(("allocated", "live", "peak", "freed", "remote", "moved"), _WEIGHT),
        **dict.fromkeys(("number", "samples", "waste", "live_waste", "freed_by_others"), _COUNT),
        **dict.fromkeys(("variance", "live_variance", "lifetimes", "longest"), _real),
        **dict.fromkeys(("by_lifetime", "freed_on_node"), _list(_real, 64)),
        "freed_by_heap": _list(_PAIR, 64),
        "frames": _list(_CODE, 1024),
    },
    {"moved_distance": _or_null(_COUNT), "remote_lifetimes": _or_null(_real)},
)
_PROFILE = _object(
    {
        **dict.fromkeys(("pid", "mean", "samples", "own_bytes", "slice_bytes"), _COUNT),
        **dict.fromkeys(("dropped_stacks", "dropped_blocks"), _COUNT),
        **dict.fromkeys(("started", "seconds"), _real),
        "version": _one,
        "modules": _list(_MODULE, 4096),
        "own": _list(_PAIR, 1 << 16),
        "blocks": _list(_BLOCK, 1 << 16),
        "sites": _list(_SITE, 4096),
    },
    {"inherited": _real},
)


def receive(connection: socket.socket) -> dict[str, Any]:
    """The profile that a process sends, up to the end of its writing. ValueError if it sends
    anything else, or too much; OSError if that takes too long."""
    return checked(_all_of(connection))


def _all_of(connection: socket.socket) -> bytes:
    end = time.monotonic() + _MOST_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        if not (part := connection.recv(1 << 20)):
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise ValueError(f"it sends more than {_MOST_BYTES:,} bytes")


def checked(data: bytes) -> dict[str, Any]:
    """The object of a profile in JSON; ValueError if it is none."""
    try:
        profile = json.loads(data.decode(errors="surrogateescape"))
    except (RecursionError, ValueError) as error:
        raise ValueError("what it sends is no profile") from error
    if not _PROFILE(profile):
        raise ValueError("what it sends is no profile")
    sites = {site["number"] for site in profile["sites"]}
    if not all(block["site"] in sites for block in profile["blocks"]):
        raise ValueError("its profile has blocks of no site")
    return dict(profile)
