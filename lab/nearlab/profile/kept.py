"""Reads the file in which a process kept its profile while it ran (malloc/profile/kept.h)."""

import struct
from typing import Any

from nearlab.profile.symbols import segments

MAGIC = b"nearkpt1"
_HEADER = struct.Struct("<8s4I2Q")
_SUMMARY = struct.Struct("<??6x5Q2I8Q")
_MODULE = struct.Struct("<3Q488s")
_SITE = struct.Struct("<Q2IQ2Qd2Qd2QQ2Q2Q2Q2Qdd7Q8Q4I4QQ")
_MODULES_AT = 4096
_FRAMES_AT = _MODULES_AT + 512 * _MODULE.size
_SITES_AT = _FRAMES_AT + 32768 * 8
_BLOCK_UNIT = 1 << 20
_NONE = (1 << 32) - 1


def _weight(blocks: int, size: int) -> dict[str, float]:
    return {"blocks": blocks / _BLOCK_UNIT, "bytes": size}


def _site(data: bytes, number: int, peak_number: int) -> dict[str, Any]:
    it = iter(_SITE.unpack_from(data, _SITES_AT + number * _SITE.size))

    def take(count: int) -> list[Any]:
        return [next(it) for _ in range(count)]

    _, first, depth, samples = take(4)
    allocated, (variance,), live, (live_variance,) = take(2), take(1), take(2), take(1)
    peak, (peak_of,), freed, remote, moved = take(2), take(1), take(2), take(2), take(2)
    waste, live_waste, lifetimes, longest = take(4)
    by_lifetime, freed_on_node, heaps, by_heap, others = take(7), take(8), take(4), take(4), take(1)
    frames = struct.unpack_from(f"<{depth}Q", data, _FRAMES_AT + 8 * first)
    return {
        "number": number,
        "samples": samples,
        "allocated": _weight(*allocated),
        "live": _weight(*live),
        # A site that did not change since the peak has its sum of the peak still.
        "peak": _weight(*(peak if peak_of == peak_number else live)),
        "freed": _weight(*freed),
        "remote": _weight(*remote),
        "moved": _weight(*moved),
        "variance": variance,
        "live_variance": live_variance,
        "waste": waste,
        "live_waste": live_waste,
        "lifetimes": lifetimes,
        "longest": longest,
        "by_lifetime": [each / _BLOCK_UNIT for each in by_lifetime],
        "freed_on_node": freed_on_node,
        "freed_by_heap": [
            [-1 if heap == _NONE else heap, size]
            for heap, size in zip(heaps, by_heap, strict=True)
            if size
        ],
        "freed_by_others": others[0],
        "frames": list(frames),
    }


def _modules(start: int, end: int, base: int, file: str) -> list[dict[str, Any]]:
    """The segments of a loaded file, as profiles in JSON list them."""
    loaded, build_id = segments(file)
    common = {"build_id": build_id, "file": file}
    if not loaded:
        return [common | {"start": start, "end": end, "offset": 0}]
    return [
        common | {"start": base + address, "end": base + address + length, "offset": offset}
        for offset, length, address in loaded
    ]


def parse(data: bytes) -> dict[str, Any]:
    """What a profile in JSON would say, without the list of blocks. ValueError if it is cut, or of
    another version."""
    try:
        _, site_bytes, modules, pid, _, inherited, peak_number = _HEADER.unpack_from(data)
        summary = _SUMMARY.unpack_from(data, _HEADER.size)
        if site_bytes != _SITE.size:
            raise ValueError("the profile is of another version of nearmalloc")
        _, running, mean, started_ms, started, stopped_ms, samples, live, sites = summary[:9]
        listed = [_MODULE.unpack_from(data, _MODULES_AT + i * _MODULE.size) for i in range(modules)]
        found = [_site(data, number, peak_number) for number in range(sites)]
    except struct.error as error:
        raise ValueError("the profile is cut") from error
    return {
        "version": 1,
        "pid": pid,
        "mean": mean,
        "started": started,
        "seconds": (stopped_ms - started_ms) / 1000,
        "running": running,
        "samples": samples,
        "live_samples": live,
        "own_bytes": summary[11],
        "slice_bytes": summary[12],
        "dropped_stacks": summary[9],
        "dropped_blocks": summary[10],
        "inherited": inherited,
        "modules": [
            module
            for start, end, base, name in listed
            for module in _modules(start, end, base, name.split(b"\0")[0].decode(errors="replace"))
        ],
        "sites": [site for site in found if site["samples"]],
    }
