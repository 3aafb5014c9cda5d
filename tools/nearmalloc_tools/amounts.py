"""Numbers of bytes, times and distances as people read them."""

from collections.abc import Callable


def amount(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration(seconds: float) -> str:
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds / 60:.3g} min"


def _of_freed(mean: float | None, size: int, shown: Callable[[float], str]) -> str:
    if size == 0:
        return "none freed"
    return "not known" if mean is None else shown(mean)


def wait(seconds: float | None, size: int) -> str:
    """The mean time until other threads freed blocks of `size` bytes in all; None: not known."""
    return _of_freed(seconds, size, duration)


def distance(mean: float | None, size: int) -> str:
    """The mean distance at which blocks of `size` bytes in all were freed; None: not known."""
    return _of_freed(mean, size, "{:.3g}".format)
