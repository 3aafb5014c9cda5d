"""The results of a plan in Markdown: medians with their spread, and every comparison.

Invariant: every topology, case and allocator of the plan has its line, even if no run passed;
a comparison shows both numbers.
"""

from collections.abc import Iterator, Sequence

from nearvm import medians, table
from nearvm.comparisons import Compared
from nearvm.medians import Median
from nearvm.plan_results import Result
from nearvm.plans import Plan

_HEADS = table.COUNTED | {"tlb_4k": "4 KiB pages by CPU", "tlb_2m": "2 MiB pages by CPU"}


def markdown(plan: Plan, result: Result, compared: Sequence[Compared]) -> str:
    lines = [f"# {plan.name}", "", plan.keys.description, "", *_about(plan, result), ""]
    shown: list[Median | None] = []
    for where in plan.keys.topologies:
        lines += [f"## {where}", "", *_counts(plan, result, where, shown), ""]
    lines += [f"- `{line}`" for line in table.legend(shown)]
    if compared:
        lines += ["", "## Comparisons", "", *_comparisons(compared)]
    return "\n".join(lines).rstrip() + "\n"


def _about(plan: Plan, result: Result) -> Iterator[str]:
    head = result.head
    kernels = {each["guest"]["kernel"] for each in result.verdicts if each["guest"]}
    caches = [each["counts"]["cache"] for each in result.verdicts if each["counts"]]
    here = head["machine"]
    yield "Counts of an emulated machine; nothing here is a time. Medians over the seeds whose runs"
    yield "passed, with the distance of the farthest from it. Pages by CPU: the sum of what each"
    yield "processor touched, which is what TLBs have to cover."
    yield ""
    yield f"- seeds: {head['seeds']}; began {head['date']}"
    yield f"- QEMU {head['qemu']}; the guest's kernel: {', '.join(sorted(kernels)) or 'unknown'}"
    yield f"- emulated on {here['cpu']}, {here['cpus']} CPUs, Linux {here['kernel']}"
    if caches:
        cache = caches[0]
        yield f"- misses: of private caches of {cache['kib']} KiB, {cache['ways']} ways, in a model"
    for name, one in head["allocators"].items():
        yield f"- {name}: {one['missing'] or ' '.join((one['label'], one['version']))}"
    for name, floor in plan.keys.floors.items():
        yield f"- {name.replace('_', ' ')}: up to {floor:,} is the harness's noise"


def _counts(plan: Plan, result: Result, where: str, shown: list[Median | None]) -> Iterator[str]:
    yield _row(["case", "allocator", "outcome", *_HEADS.values()])
    yield _row(["---", "---", "---", *["---:"] * len(_HEADS)])
    groups = medians.grouped(result.verdicts)
    for case in plan.keys.cases:
        for name in plan.keys.allocators:
            runs = groups.get((where, case, name), [])
            numbers = [medians.counted(runs, number) for number in _HEADS]
            shown += numbers
            outcome = ", ".join(table.outcomes_of(runs)) if runs else "not run"
            yield _row([case, name, outcome, *("" if n is None else str(n) for n in numbers)])


def _comparisons(compared: Sequence[Compared]) -> Iterator[str]:
    heads = ("topology", "case", "allocator", "number", "median", "other", "median")
    yield _row([*heads, "ratio", "at most", "outcome", "reason"])
    yield _row(["---"] * 4 + ["---:", "---", "---:", "---:", "---:", "---", "---"])
    for each in compared:
        compare = each.compare
        own, beside = ("" if one is None else str(one) for one in (each.own, each.beside))
        outcome = f"**{each.outcome}**" if each.outcome == "falls short" else each.outcome
        cells = [each.topology, each.case, compare.allocator, compare.number.replace("_", " ")]
        most = f"{compare.at_most:.3g}" + (" beyond the spread" if compare.beyond_spread else "")
        yield _row([*cells, own, each.other, beside, each.ratio, most, outcome, compare.reason])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '¦') for cell in cells)} |"
