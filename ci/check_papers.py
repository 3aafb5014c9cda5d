#!/usr/bin/env python3
"""docs/papers.md has a row for each claim of docs/claims.md, and names what exists.

A row names its plans in backticks (of lab/plans, or after `manycore` or "NUMA machine:" of
manycore/plans and vm/plans), after a colon the figures of the plan before them. Each plan named
has its command. A verdict that is none says why, after a colon. A row of a claim has the verdict
that claims.md has in the last column but one, before that of the data, and links to its section.
"""

import re
import tomllib
from pathlib import Path

from checking import Example, Findings, run

PAGE = "docs/papers.md"
CLAIMS = "docs/claims.md"
COMMAND = re.compile(r"\./near (?:(lab run|manycore plan|vm plan) ([\w-]+)|vm run \w+ .+)")
FOLDERS = {"lab run": "lab/plans", "manycore plan": "manycore/plans", "vm plan": "vm/plans"}
KINDS = {"manycore": "manycore plan", "NUMA machine:": "vm plan"}
COMMENT = re.compile(r"<!-- .*? -->")  # of ./near lab tables, which writes what is between two
LINK = re.compile(r"^(.*) \(\[claim\]\(claims\.md#([\w-]+)\)\)$")
REASON = re.compile(r"^(?:not|no number)\b(?! there$)")
WITHOUT_NUMBER = "no number there"


def table_rows(text: str) -> list[tuple[int, str, list[str]]]:
    """Returns (line, section's anchor, cells) of each row that is neither heading nor rule."""
    found, anchor = [], ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            kept = re.sub(r"[^\w\s-]", "", line[3:].lower())
            anchor = re.sub(r"\s", "-", kept.strip())
        elif line.startswith("|") and not line.startswith("|---"):
            if number < len(lines) and lines[number].startswith("|---"):
                continue
            cells = COMMENT.sub("", line).strip("|").split("|")
            found.append((number, anchor, [cell.strip() for cell in cells]))
    return found


def plans_of(cell: str) -> tuple[set[tuple[str, str]], dict[str, list[str]]]:
    """Returns the plans that a cell names, by the command that runs them, and their figures."""
    plans, figures, last = set(), {}, ""
    for part in re.split(r",\s*", cell):
        before, _, rest = part.partition("`")
        name, _, after = rest.partition("`")
        kind = before.strip()
        if last and not kind and not after and last.endswith(":"):
            figures.setdefault(last[:-1], []).append(name)
            continue
        if not name:  # a machine without a plan
            continue
        plans.add((KINDS.get(kind, "lab run"), name))
        last = name
        if after.startswith(":"):
            figures.setdefault(name, []).append(after.strip(": `"))
            last = name + ":"
    return plans, figures


def figure_names(root: Path, plan: str) -> set[str]:
    text = (root / f"lab/plans/{plan}.toml").read_text(encoding="utf-8")
    plan = tomllib.loads(text)
    return {one["name"] for kind in ("figure", "timeline") for one in plan.get(kind, [])}


def check_plans(root: Path, line: int, cells: list[str], findings: Findings) -> None:
    plans, figures = plans_of(cells[2])
    commands = re.findall(r"`([^`]+)`", cells[3])
    run_plans = set()
    for command in commands:
        match = COMMAND.fullmatch(command)
        if match is None:
            findings.fault(PAGE, line, f"`{command}` runs no plan")
        elif match.group(1):
            run_plans.add((match.group(1), match.group(2)))
    for kind, name in sorted(plans | run_plans):
        if not (root / FOLDERS[kind] / f"{name}.toml").is_file():
            findings.fault(PAGE, line, f"there is no {FOLDERS[kind]}/{name}.toml")
    if plans != run_plans:
        findings.fault(PAGE, line, f"plans {sorted(plans)}, but commands for {sorted(run_plans)}")
    for plan, names in figures.items():
        if (root / f"lab/plans/{plan}.toml").is_file():
            for name in sorted(set(names) - figure_names(root, plan)):
                findings.fault(PAGE, line, f"{plan} has no figure `{name}`")
    if not plans and not cells[4].startswith(("no", "not")):
        findings.fault(PAGE, line, "a verdict without a plan")


def check(root: Path, findings: Findings) -> None:
    claims = {(anchor, cells[0]): cells[-2]
              for _, anchor, cells in table_rows((root / CLAIMS).read_text(encoding="utf-8"))}
    linked = set()
    for line, _, cells in table_rows((root / PAGE).read_text(encoding="utf-8")):
        findings.count()
        if len(cells) != 6 or not all(cells):
            findings.fault(PAGE, line, "six cells, none empty")
            continue
        check_plans(root, line, cells, findings)
        for verdict in cells[4:]:
            if REASON.match(LINK.sub(r"\1", verdict)) and ": " not in verdict:
                findings.fault(PAGE, line, f"'{verdict}' gives no reason")
        if link := LINK.match(cells[4]):
            key = (link.group(2), cells[1])
            if key not in claims:
                findings.fault(PAGE, line, f"claims.md has no claim '{cells[1]}' there")
            elif link.group(1) != (claims[key] or WITHOUT_NUMBER):
                findings.fault(PAGE, line, f"claims.md says '{claims[key]}'")
            linked.add(key)
    for _, claim in sorted(set(claims) - linked):
        findings.fault(PAGE, 0, f"no row links to the claim '{claim}'")


HEAD = "| document | what | plan | command | here | simulated |\n|---|---|---|---|---|---|\n"
GOOD = ("| [A] | fast | `p`: `f`, manycore `m` | `./near lab run p`, `./near manycore plan m` "
        "| yes ([claim](claims.md#kims-work-a)) | not simulated: too large |\n"
        "| [A] | a picture | none | none | no number: a picture | no number: a picture |\n")


def tree(rows: str) -> dict[str, str]:
    return {
        PAGE: HEAD + rows,
        CLAIMS: "## Kim's work [A]\n\n| claim | same | data |\n|---|---|---|\n| fast | yes | d |\n",
        "lab/plans/p.toml": '[[figure]]\nname = "f"\n',
        "manycore/plans/m.toml": "",
    }


EXAMPLES = [
    Example("right", tree(GOOD), None),
    Example("a claim without a row", tree(GOOD.replace("fast", "slow")), "no row links to"),
    Example("a verdict made from data",
            {name: text.replace("| yes", "| <!-- number: sign a -->yes<!-- end -->")
             for name, text in tree(GOOD).items()}, None),
    Example("another verdict", tree(GOOD.replace("| yes", "| no")), "claims.md says 'yes'"),
    Example("no such plan", tree(GOOD.replace("`m`", "`n`")), "there is no manycore/plans/n.toml"),
    Example("no such figure", tree(GOOD.replace("`f`", "`g`")), "p has no figure `g`"),
    Example("no command", tree(GOOD.replace("`./near lab run p`, ", "")), "but commands for"),
    Example("another command", tree(GOOD.replace("lab run p", "demo")), "runs no plan"),
    Example("no reason", tree(GOOD.replace(": too large", "")), "gives no reason"),
    Example("no verdict", tree(GOOD.replace("not simulated: too large", "")), "none empty"),
    Example("no plan", tree(GOOD.replace("| no number: a picture | no", "| yes | no")),
            "a verdict without a plan"),
]

if __name__ == "__main__":
    run(__doc__ or "", "rows of docs/papers.md", check, EXAMPLES)
