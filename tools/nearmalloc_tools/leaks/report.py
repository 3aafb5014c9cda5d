"""What a scan found, by the stack that allocated it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nearmalloc_tools.amounts import amount
from nearmalloc_tools.leaks.scan import Scan
from nearmalloc_tools.profile.profile import Site
from nearmalloc_tools.profile.symbols import shown
from nearmalloc_tools.top.blocks import Blocks

_MOST_FRAMES = 20
_MOST_EVENTS = 5


@dataclass
class Leak:
    """The unreachable sampled blocks of a site."""

    site: Site
    live: int = 0  # sampled blocks that are live, reachable or not
    direct: int = 0  # of the unreachable ones: nothing at all points to them
    indirect: int = 0  # only unreachable blocks point to them
    blocks: float = 0.0  # estimates
    bytes: float = 0.0
    variance: float = 0.0
    examples: list[int] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.direct + self.indirect

    @property
    def how(self) -> str:
        if not self.indirect:
            return "nothing points to them"
        if not self.direct:
            return "only leaked blocks point to them"
        return f"nothing points to {self.direct} of them, and only leaked blocks to {self.indirect}"


def leaks_of(
    exit_report: dict[str, Any], sites: list[Site], blocks: Blocks, scan: Scan, ignored: list[str]
) -> list[Leak]:
    """The sites with unreachable blocks, the most bytes first."""
    found = {site.number: Leak(site) for site in sites}
    sampled = exit_report["blocks"]
    numbers = blocks.numbers(each["address"] for each in sampled)
    for each, number in zip(sampled, numbers, strict=True):
        leak = found[each["site"]]
        leak.live += 1
        if number < 0 or scan.reachable[number]:
            continue
        leak.direct += not scan.held_by_lost[number]
        leak.indirect += scan.held_by_lost[number]
        leak.blocks += each["blocks"]
        leak.bytes += each["bytes"]
        leak.variance += each["variance"]
        leak.examples.append(each["address"])

    def is_ignored(leak: Leak) -> bool:
        names = [frame.function for frame in leak.site.stack]
        return any(word in name for word in ignored for name in names)

    lost = [leak for leak in found.values() if leak.lost and not is_ignored(leak)]
    return sorted(lost, key=lambda leak: -leak.bytes)


def _lines(leak: Leak) -> list[str]:
    deviation = 1.96 * leak.variance**0.5
    low, high = max(leak.bytes - deviation, 0), leak.bytes + deviation
    lines = [
        f"  about {amount(leak.bytes)} in {max(leak.blocks, 1):,.0f} blocks "
        f"(95 %: {amount(low)} to {amount(high)}): {leak.lost} of the site's {leak.live} sampled "
        f"blocks are unreachable, {leak.how}; such as {leak.examples[0]:#x}"
    ]
    for frame in leak.site.stack[:_MOST_FRAMES]:
        lines.append(f"    {frame.function}  {frame.place}".rstrip())
    if len(leak.site.stack) > _MOST_FRAMES:
        lines.append(f"    and {len(leak.site.stack) - _MOST_FRAMES} more")
    return lines


def text(
    exit_report: dict[str, Any], leaks: list[Leak], name: str, events: Sequence[str] = ()
) -> str:
    """The report of one process, with events of its allocator."""
    process = f"{shown(name)} ({exit_report['pid']})"
    dropped = exit_report["dropped_blocks"]
    note = []
    if dropped or exit_report["dropped_stacks"]:
        note = [
            f"  {dropped} samples were not followed and {exit_report['dropped_stacks']} have no "
            "stack, because the profiler's memory was full: take a larger --interval"
        ]
    note += [f"  {event}" for event in events[:_MOST_EVENTS]]
    if not leaks:
        none = f"{process}: none of {len(exit_report['blocks'])} sampled blocks is leaked"
        return "\n".join([none, *note])
    whole = sum(leak.bytes for leak in leaks)
    deviation = 1.96 * sum(leak.variance for leak in leaks) ** 0.5
    lost = sum(leak.lost for leak in leaks)
    head = (
        f"{process} leaks about {amount(whole)} ± {amount(deviation)}: {lost} of "
        f"{len(exit_report['blocks'])} sampled blocks are unreachable, "
        f"from {len(leaks)} {'site' if len(leaks) == 1 else 'sites'}"
    )
    return "\n".join([head, *note, *(line for leak in leaks for line in _lines(leak))])
