"""Names beside the points of a scatter, moved up or down until they do not cover each other.

Invariant: a label is on the side of its point where it fits and at a height near it; two labels of
a chart overlap only where there is no room at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_LETTER, _LINE, _GAP = 7.0, 15.0, 12.0  # pixels: a letter's width, a line's height, to the point


@dataclass(frozen=True, slots=True)
class Box:
    """The plot's size in pixels."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Point:
    """A named place with its interval. x counts from the left and y from the top, as shares of the
    box."""

    name: str
    x: float
    y: float
    reach: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Label:
    """The place of a name: at the right or the left of its point's x, at height y."""

    name: str
    x: float
    y: float
    right: bool


def place(points: Sequence[Point], box: Box, lines: tuple[float, float]) -> list[Label]:
    """Returns a label for each point. It places labels from the top, each as near to its point as
    there is room, and keeps the lines at the shares `lines` free."""
    taken = [_square(point, box) for point in points]
    x, y = lines[0] * box.width, lines[1] * box.height
    taken += [_rule(point, box) for point in points]
    taken += [(x, 0, x + 1, box.height), (0, y, box.width, y + 1)]
    labels = []
    for point in sorted(points, key=lambda one: (one.y, one.x)):
        own = _square(point, box)
        label, area = min(
            _candidates(point, box), key=lambda found: _cost(found, point, taken, own, box)
        )
        taken.append(area)
        labels.append(label)
    return labels


_Area = tuple[float, float, float, float]  # left, top, right, bottom


def _square(point: Point, box: Box) -> _Area:
    x, y = point.x * box.width, point.y * box.height
    return x - 7, y - 7, x + 7, y + 7


def _rule(point: Point, box: Box) -> _Area:
    """The interval in x as it is drawn."""
    y = point.y * box.height
    return point.reach[0] * box.width, y - 1, point.reach[1] * box.width, y + 1


def _candidates(point: Point, box: Box) -> list[tuple[Label, _Area]]:
    wide = _LETTER * len(point.name)
    x = point.x * box.width
    found = []
    for right in (True, False):
        left = x + _GAP if right else x - _GAP - wide
        for step in range(-9, 10):
            y = point.y * box.height + step * _LINE / 3
            label = Label(point.name, point.x, y / box.height, right)
            found.append((label, (left, y - _LINE / 2, left + wide, y + _LINE / 2)))
    return found


def _cost(
    found: tuple[Label, _Area], point: Point, taken: Sequence[_Area], own: _Area, box: Box
) -> float:
    label, area = found
    covered = sum(_overlap(area, other) for other in taken if other != own)
    outside = max(0.0, -area[0]) + max(0.0, area[2] - box.width)
    outside += max(0.0, -area[1]) + max(0.0, area[3] - box.height)
    moved = abs(label.y - point.y) * box.height
    return 10 * covered + 100 * outside + moved + (0 if label.right else 1)


def _overlap(one: _Area, other: _Area) -> float:
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0.0
