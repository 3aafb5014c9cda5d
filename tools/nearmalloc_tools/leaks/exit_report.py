"""What a process says of itself when it ends: its profile in JSON, through a socket.

Invariant: what `receive` returns has the shape of a profile, whatever the process sent.
"""

import json
import socket
import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_MOST_BYTES = 16 << 20
_MOST_SECONDS = 60

_Real = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Code = Annotated[int, Field(ge=0, lt=1 << 64)]  # some of it is the kernel's
_Pair = Annotated[list[int], Field(min_length=2, max_length=2)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Module(_Part):
    model_config = ConfigDict(strict=True, extra="forbid")
    start: _Code
    end: _Code
    offset: _Count
    build_id: str
    file: str


class _Weight(_Part):
    blocks: _Real
    bytes: _Count


class _Block(_Part):
    address: _Count
    site: _Count
    blocks: _Real
    bytes: _Count
    variance: _Real


class _Site(_Part):
    number: _Count
    samples: _Count
    allocated: _Weight
    live: _Weight
    peak: _Weight
    freed: _Weight
    remote: _Weight
    moved: _Weight
    moved_distance: _Count | None = None
    variance: _Real
    live_variance: _Real
    waste: _Count
    live_waste: _Count
    lifetimes: _Real
    remote_lifetimes: _Real | None = None
    longest: _Real
    by_lifetime: Annotated[list[_Real], Field(max_length=64)]
    freed_on_node: Annotated[list[_Real], Field(max_length=64)]
    freed_by_heap: Annotated[list[_Pair], Field(max_length=64)]
    freed_by_others: _Count
    frames: Annotated[list[_Code], Field(max_length=1024)]


class _Profile(_Part):
    version: Literal[1]
    pid: _Count
    mean: _Count
    started: _Real
    seconds: _Real
    samples: _Count
    own_bytes: _Count
    slice_bytes: _Count
    dropped_stacks: _Count
    dropped_blocks: _Count
    inherited: _Real = 0
    modules: Annotated[list[_Module], Field(max_length=4096)]
    own: Annotated[list[_Pair], Field(max_length=1 << 16)]
    blocks: Annotated[list[_Block], Field(max_length=1 << 16)]
    sites: Annotated[list[_Site], Field(max_length=4096)]


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
        told = json.loads(data.decode(errors="surrogateescape"))
        found = _Profile.model_validate(told)
    except (RecursionError, ValidationError, ValueError) as error:
        raise ValueError("what it sends is no profile") from error
    if not {block.site for block in found.blocks} <= {site.number for site in found.sites}:
        raise ValueError("its profile has blocks of no site")
    return dict(told)
