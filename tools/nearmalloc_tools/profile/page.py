"""The page of a profile: one file that needs nothing else; its own policy forbids it to load
anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from nearmalloc_tools.amounts import amount, distance, duration, wait
from nearmalloc_tools.profile.leaked import Leaked, confidence
from nearmalloc_tools.profile.profile import LAST_NODE, LIFETIMES, MEASURES, Profile, Site
from nearmalloc_tools.profile.symbols import Frame

if TYPE_CHECKING:
    from nearmalloc_tools.leaks.report import Leak

_HERE = Path(__file__).parent
MOST_ROWS = 30
_OF_FREED = ("remote", "moved")  # parts of what was freed
_ENOUGH = 10  # samples below which a site is not judged


def _between(size: int, deviation: float) -> str:
    return f"{amount(max(size - 1.96 * deviation, 0))} to {amount(size + 1.96 * deviation)}"


def _heap(heap: int) -> str:
    return f"heap {heap}" if heap >= 0 else "no heap"


def _node(node: int) -> str:
    return f"node {node}" + (" and higher" if node == LAST_NODE else "")


def _heaps(site: Site) -> str:
    found = [f"{_heap(heap)}: {amount(size)}" for heap, size in site.freed_by_heap]
    if site.freed_by_others:
        found.append(f"other heaps: {amount(site.freed_by_others)}")
    return ", ".join(found)


def _nodes(site: Site) -> str:
    return ", ".join(f"{_node(node)}: {amount(size)}" for node, size in site.freed_on_node)


def _lives(site: Site) -> str:
    """How long its blocks lived; the shares are of the blocks that were freed."""
    limits = [duration(limit) for limit in LIFETIMES]
    names = [f"below {limits[0]}", *map(" to ".join, pairwise(limits)), f"above {limits[-1]}"]
    whole = sum(site.by_lifetime) or 1
    shares = [
        f"{100 * blocks / whole:.0f} % {name}"
        for name, blocks in zip(names, site.by_lifetime, strict=False)
        if blocks / whole >= 0.005
    ]
    return ", ".join(shares)


def _by_others(site: Site) -> str:
    """After what time other threads freed its blocks, if that is known."""
    later = "" if site.remote_life is None else f", {duration(site.remote_life)} later on average"
    return f"by other threads{later}"


def _far(site: Site) -> str:
    """How far away its blocks were freed on other nodes; empty if that is not known."""
    if site.distance is None:
        return ""
    return f", at a mean distance of {site.distance:.3g} (the block's node is at 10)"


def _freed(site: Site) -> list[str]:
    """Where, by which threads, and after what time the blocks of a site were freed."""
    if not site.freed:
        return ["None of its blocks was freed."]
    away = f"{amount(site.sums['moved'])} of it on another node than the block's"
    return [
        f"Freed: {amount(site.freed)}; {away}{_far(site)}",
        f"on {_nodes(site)}",
        f"by {_heaps(site)}",
        *([_by_others(site)] if site.sums["remote"] else []),
        f"after {duration(site.mean_life)} on average, {duration(site.longest_life)} at most: "
        f"{_lives(site)}",
    ]


def _row(site: Site, measure: str) -> dict[str, Any]:
    deviation = site.live_deviation if measure == "live" else site.deviation
    return {
        "function": site.short,
        "full": site.caller,
        "place": site.frame.place,
        "wrapper": site.wrapper,
        "stack": site.stack,
        "bytes": amount(site.sums[measure]),
        "between": _between(site.sums[measure], deviation),
        "of": amount(site.freed if measure in _OF_FREED else site.sums["allocated"]),
        "samples": site.samples,
        "size": amount(site.size),
        "block": amount(site.block_size),
        "life": duration(site.mean_life) if site.freed else "none freed",
        "wait": wait(site.remote_life, site.sums["remote"]),
        "distance": distance(site.distance, site.sums["moved"]),
        "heaps": _heaps(site),
        "nodes": _nodes(site),
        "freed": _freed(site),
    }


def _rows(profile: Profile, measure: str) -> tuple[list[dict[str, Any]], int]:
    """The largest sites, and how many others there are."""
    sites = [site for site in profile.sites if site.sums[measure] > 0]
    sites.sort(key=lambda site: -site.sums[measure])
    return [_row(site, measure) for site in sites[:MOST_ROWS]], len(sites[MOST_ROWS:])


def _leak_row(leak: Leak) -> dict[str, Any]:
    return _row(leak.site, "live") | {
        "bytes": amount(leak.bytes),
        "between": _between(round(leak.bytes), leak.variance**0.5),
        "blocks": f"{max(leak.blocks, 1):,.0f}",
        "lost": f"{leak.lost} of {leak.live}",
        "how": leak.how,
        "confidence": confidence(leak),
    }


def suggestions(profile: Profile, leaks: Sequence[Leak] = ()) -> list[str]:
    """Sentences about sites whose numbers support one."""
    said = [
        f"{leak.site.short} leaks about {amount(leak.bytes)}: the program can reach none of its "
        f"{leak.live} sampled blocks."
        for leak in leaks[:3]
        if confidence(leak) == "high"
    ]
    for site in sorted(profile.sites, key=lambda each: -each.sums["allocated"]):
        if site.samples < _ENOUGH or len(said) == 10:
            continue
        size, block, remote = site.size, site.block_size, site.sums["remote"]
        if block > 1.3 * size and site.sums["waste"] > 0.02 * profile.sum_of("allocated"):
            said.append(
                f"A block of about {size:,.0f} bytes from {site.short} takes {block:,.0f} bytes: "
                f"{amount(site.sums['waste'])} were allocated beyond what was asked for, and "
                f"{amount(site.live_waste)} of that is live at the end. Of a large block only the "
                "pages that were touched take memory."
            )
        if remote > 0.5 * site.freed > 0.05 * profile.sum_of("allocated"):
            said.append(
                f"{100 * remote / site.freed:.0f} % of what {site.short} allocates is freed "
                f"{_by_others(site)}."
            )
        moved = site.sums["moved"]
        if moved > 0.5 * site.freed > 0.05 * profile.sum_of("allocated"):
            said.append(
                f"{100 * moved / site.freed:.0f} % of what {site.short} allocates is freed on "
                f"another node than the block's{_far(site)}."
            )
    return said


def tree_of(sites: list[tuple[list[Frame], list[int]]], measures: Sequence[str]) -> str:
    """The calls as a tree from the outermost frame on, in JSON for the page's script; values in the
    order of `measures`."""
    root: dict[str, Any] = {"n": "all", "s": "all", "v": [0] * len(measures), "c": {}}
    for stack, values in sites:
        node = root
        for frame in [None, *reversed(stack)]:
            if frame is not None:
                node = node["c"].setdefault(
                    frame.function,
                    {"n": frame.function, "s": frame.short, "v": [0] * len(measures), "c": {}},
                )
            node["v"] = [old + new for old, new in zip(node["v"], values, strict=True)]

    def plain(node: dict[str, Any]) -> dict[str, Any]:
        shown = {"n": node["n"], "v": node["v"], "c": list(map(plain, node["c"].values()))}
        return shown if node["s"] == node["n"] else shown | {"s": node["s"]}

    # In a script "</" would end it.
    text = json.dumps({"measures": measures, "tree": plain(root)})
    return text.replace("<", "\\u003c")


def render(template: str, **values: Any) -> str:
    """A page with its style and script in it."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template(template).render(
        **values,
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
    )


def build(profile: Profile, title: str, leaked: Leaked) -> str:
    """The page as HTML."""
    sites = [(site.stack, [site.sums[each] for each in MEASURES]) for site in profile.sites]
    rows = {measure: _rows(profile, measure) for measure in MEASURES}
    return render(
        "page.html",
        title=title,
        summary=profile.summary,
        interval=amount(profile.summary["mean"]),
        own=amount(profile.summary["own_bytes"]),
        slices=amount(profile.summary["slice_bytes"]),
        totals={measure: amount(profile.sum_of(measure)) for measure in MEASURES},
        rows={measure: shown for measure, (shown, _) in rows.items()},
        more={measure: others for measure, (_, others) in rows.items()},
        leaks=[_leak_row(leak) for leak in leaked.leaks[:MOST_ROWS]],
        more_leaks=len(leaked.leaks[MOST_ROWS:]),
        leaks_unknown=leaked.unknown,
        events=leaked.events[:MOST_ROWS],
        more_events=len(leaked.events[MOST_ROWS:]),
        suggestions=suggestions(profile, leaked.leaks),
        tree=tree_of(sites, MEASURES),
    )
