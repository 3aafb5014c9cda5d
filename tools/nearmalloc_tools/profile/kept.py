"""Reads the file in which a process kept its profile while it ran (malloc/profile/kept.h)."""

import os
import struct
from pathlib import Path
from typing import Any

from nearmalloc_tools.profile.symbols import segments

MAGIC = b"nearkpt"  # and a digit: the version
_VERSION = b"nearkpt5"
_HEADER = struct.Struct("<8s6I2Q")
_SUMMARY = struct.Struct("<??6x5Q2I8Q")
_MODULE = struct.Struct("<3QH6s")
_SITE = struct.Struct("<Q2HI2Qd2Qd2QQ2Q2Q2QQ2Q3d6Q7Q4I4Q")
_MODULES_AT = 4096
_NAMES_AT = _MODULES_AT + 256 * _MODULE.size
_ADDRESSES_AT = _NAMES_AT + 28672
_FRAMES_AT = _ADDRESSES_AT + 6144 * 8
_SITES_AT = _FRAMES_AT + 26624 * 2
_LAYOUT_BYTES = _SITES_AT + 768 * _SITE.size
_BLOCK_UNIT = 1 << 20
_OTHER_VERSION = "the profile is of another version of nearmalloc"
_NO_HEAP = (1 << 32) - 1


def _weight(blocks: int, size: int) -> dict[str, float]:
    return {"blocks": blocks / _BLOCK_UNIT, "bytes": size}


def _site(data: bytes, number: int, peak_number: int) -> dict[str, Any]:
    it = iter(_SITE.unpack_from(data, _SITES_AT + number * _SITE.size))

    def take(count: int) -> list[Any]:
        return [next(it) for _ in range(count)]

    _, first, depth, samples = take(4)
    allocated, (variance,), live, (live_variance,) = take(2), take(1), take(2), take(1)
    peak, (peak_of,), freed, remote, moved = take(2), take(1), take(2), take(2), take(2)
    moved_distance, waste, live_waste, lifetimes, remote_lifetimes, longest = take(6)
    by_lifetime, freed_on_node, heaps, by_heap = take(6), take(7), take(4), take(4)
    # The last numbers are not stored: they are what the others lack of the whole.
    by_lifetime.append(freed[0] - sum(by_lifetime))
    freed_on_node.append(freed[1] - sum(freed_on_node))
    numbers = struct.unpack_from(f"<{depth}H", data, _FRAMES_AT + 2 * first)
    frames = [struct.unpack_from("<Q", data, _ADDRESSES_AT + 8 * at)[0] for at in numbers]
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
        "moved_distance": moved_distance,
        "variance": variance,
        "live_variance": live_variance,
        "waste": waste,
        "live_waste": live_waste,
        "lifetimes": lifetimes,
        "remote_lifetimes": remote_lifetimes,
        "longest": longest,
        "by_lifetime": [each / _BLOCK_UNIT for each in by_lifetime],
        "freed_on_node": freed_on_node,
        "freed_by_heap": [
            [-1 if heap == _NO_HEAP else heap, size]
            for heap, size in zip(heaps, by_heap, strict=True)
            if size
        ],
        "freed_by_others": freed[1] - sum(by_heap),
        "frames": frames,
    }


def _is_same(file: str, build_id: str, begin: bytes, started: int) -> bool:
    """True if the file is what the process loaded: its build id begins so. Without one it must not
    have changed since the start."""
    try:
        if any(begin):
            return bytes.fromhex(build_id)[: len(begin)].ljust(len(begin), b"\0") == begin
        return Path(file).stat().st_ctime <= started + 1
    except OSError:
        return False


def _modules(
    start: int, end: int, base: int, file: str, begin: bytes, started: int
) -> list[dict[str, Any]]:
    """The segments of a loaded file, as profiles in JSON list them."""
    loaded, build_id = segments(file)
    if not _is_same(file, build_id, begin, started):
        loaded, build_id = [], "another"  # no file has this one
    common = {"build_id": build_id, "file": file}
    if not loaded:
        return [common | {"start": start, "end": end, "offset": 0}]
    return [
        common | {"start": base + address, "end": base + address + length, "offset": offset}
        for offset, length, address in loaded
    ]


def _name(data: bytes, start: int) -> str:
    return os.fsdecode(data[_NAMES_AT + start : _ADDRESSES_AT].split(b"\0")[0])


def parse(data: bytes) -> dict[str, Any]:
    """What a profile in JSON would say, without the list of blocks. ValueError if it is cut, or of
    another version."""
    try:
        if data[:8] != _VERSION:
            raise ValueError(_OTHER_VERSION)
        header = _HEADER.unpack_from(data)
        _, site_bytes, modules, pid, layout_bytes, dropped_modules, changing = header[:7]
        inherited, peak_number = header[7:]
        if (site_bytes, layout_bytes) != (_SITE.size, _LAYOUT_BYTES):
            raise ValueError(_OTHER_VERSION)
        if changing:
            raise ValueError("the process ended while it rewrote the profile that it kept")
        summary = _SUMMARY.unpack_from(data, _HEADER.size)
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
        "dropped_modules": dropped_modules,
        "inherited": inherited,
        "modules": [
            module
            for start, end, base, name, begin in listed
            for module in _modules(start, end, base, _name(data, name), begin, started)
        ],
        "sites": [site for site in found if site["samples"]],
    }
