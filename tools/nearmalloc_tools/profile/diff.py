"""`nearmalloc profile diff A B`: what grew between two moments, as text and as a page.

Sites of the two profiles are the same if the names and places of their whole stacks are, so the
profiles may also be of two runs of one program.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nearmalloc_tools.amounts import amount, distance, wait
from nearmalloc_tools.errors import Refused, say
from nearmalloc_tools.profile.page import MOST_ROWS, render, tree_of
from nearmalloc_tools.profile.profile import Profile, Site, mean, named_frame, read
from nearmalloc_tools.profile.symbols import Frame

_MEASURES = ("grew", "shrank", "allocated")

Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class Change:
    """A site at both moments. Numbers are bytes."""

    stack: Stack
    before: int
    after: int
    deviation: float  # of the difference, at most
    allocated: int  # between the moments
    remote: int = 0  # freed between them by other threads
    moved: int = 0  # freed between them on another node than the block's
    remote_life: float | None = None  # in seconds, of blocks that were freed between them
    distance: float | None = None

    @property
    def growth(self) -> int:
        return self.after - self.before

    @property
    def is_certain(self) -> bool:
        """Zero is outside the 95 % interval."""
        return abs(self.growth) > 1.96 * self.deviation

    @property
    def named(self) -> tuple[Frame, ...]:
        """The stack from the function that names the site on."""
        return self.stack[named_frame(self.stack) :] or (Frame("(no stack)", ""),)

    @property
    def caller(self) -> str:
        return self.named[0].function

    @property
    def between(self) -> str:
        return " to ".join(signed(self.growth + sign * 1.96 * self.deviation) for sign in (-1, 1))


def signed(size: float) -> str:
    return f"{'-' if size < 0 else '+'}{amount(abs(size))}"


def _by_stack(profile: Profile) -> dict[Stack, list[Site]]:
    found: dict[Stack, list[Site]] = {}
    for site in profile.sites:
        found.setdefault(tuple(site.stack), []).append(site)
    return found


def _mean_between(
    before: list[Site], after: list[Site], sums: Callable[[Site], tuple[float | None, float]]
) -> float | None:
    """The mean of what was added between the moments; None if it is not known. `sums`: the whole
    of a site, and its count."""
    whole = count = 0.0
    for sign, sites in ((-1, before), (1, after)):
        for site in sites:
            added, number = sums(site)
            if added is None:
                return None
            whole += sign * added
            count += sign * number
    return mean(max(whole, 0), count)


def compare(before: Profile, after: Profile) -> list[Change]:
    """All sites that changed, those that grew most first."""
    old, new = _by_stack(before), _by_stack(after)
    changes = []
    for stack in dict.fromkeys([*new, *old]):
        first, last = old.get(stack, []), new.get(stack, [])
        sums = [sum(site.sums["live"] for site in sites) for sites in (first, last)]
        if sums[0] == sums[1]:
            continue
        both = [*((site, -1) for site in first), *((site, 1) for site in last)]
        variance = sum(site.live_deviation**2 for site in [*first, *last])
        between = {
            measure: max(sum(site.sums[measure] * sign for site, sign in both), 0)
            for measure in ("allocated", "remote", "moved")
        }
        life = _mean_between(first, last, lambda site: (site.remote_seconds, site.remote_blocks))
        far = _mean_between(first, last, lambda site: (site.moved_distance, site.sums["moved"]))
        deviation = variance**0.5
        changes.append(
            Change(stack, sums[0], sums[1], deviation, **between, remote_life=life, distance=far)
        )
    return sorted(changes, key=lambda change: -change.growth)


def listed(changes: list[Change]) -> tuple[list[Change], str]:
    """Those that grew most, those that shrank most, and a line about the others."""
    shrank = changes[max(MOST_ROWS, len(changes) - MOST_ROWS) :]
    shown = [*changes[:MOST_ROWS], *shrank]
    others = len(changes) - len(shown)
    return shown, f"and {others} more, which changed less" if others else ""


def text(before: Profile, after: Profile, changes: list[Change]) -> str:
    sums = [profile.sum_of("live") for profile in (before, after)]
    lines = [
        f"live: {amount(sums[0])} before, {amount(sums[1])} after: {signed(sums[1] - sums[0])}"
    ]
    shown, others = listed(changes)
    for change in shown:
        mark = "" if change.is_certain else "  (perhaps chance)"
        lines.append(
            f"{signed(change.growth):>12}  95 %: {change.between}  "
            f"{change.caller} {change.named[0].place}".rstrip()
            + mark
        )
        lines += [f"{'':14}{frame.function}" for frame in change.named[1:6]]
    return "\n".join([*lines, *filter(None, [others])])


def page(before: Profile, after: Profile, changes: list[Change], title: str) -> str:
    tree = tree_of(
        [
            (
                list(change.stack),
                [max(change.growth, 0), max(-change.growth, 0), change.allocated],
            )
            for change in changes
        ],
        _MEASURES,
    )
    shown, others = listed(changes)
    grew = sum(max(change.growth, 0) for change in changes)
    shrank = sum(max(-change.growth, 0) for change in changes)
    return render(
        "diff.html",
        title=title,
        before=amount(before.sum_of("live")),
        after=amount(after.sum_of("live")),
        growth=signed(after.sum_of("live") - before.sum_of("live")),
        totals={
            "grew": amount(grew),
            "shrank": amount(shrank),
            "allocated": amount(sum(change.allocated for change in changes)),
        },
        rows=[
            {
                "function": change.named[0].short,
                "full": change.caller,
                "place": change.named[0].place,
                "stack": change.stack,
                "before": amount(change.before),
                "after": amount(change.after),
                "growth": signed(change.growth),
                "between": change.between,
                "certain": change.is_certain,
                "remote": amount(change.remote),
                "moved": amount(change.moved),
                "wait": wait(change.remote_life, change.remote),
                "distance": distance(change.distance, change.moved),
            }
            for change in shown
        ],
        others=others,
        tree=tree,
    )


def diff(before: Path, after: Path, out: Path) -> None:
    """Prints what changed, and writes the page."""
    try:
        first, last = read(before), read(after)
    except ValueError as error:
        raise Refused(str(error)) from error
    changes = compare(first, last)
    print(text(first, last, changes))
    title = f"{after.name} against {before.name}"
    out.write_text(page(first, last, changes, title), encoding="utf-8")
    say(str(out))
