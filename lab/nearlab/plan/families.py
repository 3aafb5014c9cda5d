"""Families of tables in a plan: `each` makes one table for every combination of its values.

    [[workload]]
    program = "set_updates"
    name = "{scheme} {policy}"
    each = { scheme = ["debra", "token"], policy = ["batch", "amortized"] }

is four workloads: each value becomes an option of its workload, and replaces its name in braces
wherever the table has it. A figure has no options, so there a value only replaces its name.
Invariant: the plan and the report see only the tables made here, not `each`.
"""

import tomllib
from dataclasses import dataclass
from itertools import product
from typing import Any

KINDS = ("workload", "figure")


class FamilyError(ValueError):
    """An `each` that makes no tables; the message is one line that names its key."""


@dataclass(frozen=True, slots=True)
class Tables:
    """A plan's tables. `origins` holds, by kind, the tables' places in the text."""

    tables: dict[str, Any]
    origins: dict[str, list[int]]


def read(text: str) -> Tables:
    """The tables of a plan's text; a family's tables replace the table that has the `each`."""
    tables = tomllib.loads(text)
    origins: dict[str, list[int]] = {}
    for kind in KINDS:
        written = tables.get(kind)
        if not isinstance(written, list):
            continue
        made = [
            (place, member)
            for place, table in enumerate(written)
            for member in _members(kind, place, table)
        ]
        tables[kind] = [member for _, member in made]
        origins[kind] = [place for place, _ in made]
    return Tables(tables, origins)


def _members(kind: str, place: int, table: dict[str, Any]) -> list[dict[str, Any]]:
    if not isinstance(table, dict) or "each" not in table:
        return [table]
    key = f"{kind}[{place}].each"
    each = table["each"]
    if not isinstance(each, dict) or not each:
        raise FamilyError(f"{key}: is a table of lists")
    for name, values in each.items():
        if not isinstance(values, list) or not values:
            raise FamilyError(f"{key}.{name}: is a list of values")
        if any(isinstance(value, bool) or not isinstance(value, int | str) for value in values):
            raise FamilyError(f"{key}.{name}: its values are words or whole numbers")
        options = table.get("options", {})
        if isinstance(options, dict) and name in options:
            raise FamilyError(f"{key}.{name}: is given twice")
    rest = {name: value for name, value in table.items() if name != "each"}
    found = []
    for values in product(*each.values()):
        chosen = dict(zip(each, values, strict=True))
        member = _filled(rest, chosen)
        if kind == "workload":
            options = member.get("options", {})
            member["options"] = options | chosen if isinstance(options, dict) else options
        found.append(member)
    return found


def _filled(value: Any, chosen: dict[str, Any]) -> Any:
    """Returns the value with every name in braces replaced, at any depth."""
    if isinstance(value, str):
        for name, word in chosen.items():
            value = value.replace(f"{{{name}}}", str(word))
        return value
    if isinstance(value, list):
        return [_filled(one, chosen) for one in value]
    if isinstance(value, dict):
        return {name: _filled(one, chosen) for name, one in value.items()}
    return value
