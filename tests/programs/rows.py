"""The rows of the table of programs, as the files in rows/ declare them.

Invariant: a row that loads has every field in its right type, and no field that is not known.
Thread-safety: the scripts of this folder; CMake lists the rows by running it.
"""

import argparse
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    name: str
    packages: list[str]  # of Debian
    needs: list[str]  # commands, or patterns of paths, that show that the packages are there
    version: str  # bash: prints it
    script: str  # bash: runs the program in an empty folder, under the allocator
    prepare: str = ""  # bash: runs once without the allocator, in the folder $PREPARED
    counted: list[str] = field(default_factory=list)  # executables, by name; empty: those of needs
    same: bool = True  # each run has to print what one without the allocator prints
    expect: str = ""  # a regular expression that has to match the output
    own_malloc: str = ""  # why few calls may arrive; without it, few calls are a failure
    remark: str = ""
    least: int = 1000  # calls; fewer are "not served"
    timeout: int = 120  # seconds, of one run
    core: bool = False  # also a test of the label core
    env: dict[str, str] = field(default_factory=dict)

    @property
    def executables(self) -> list[str]:
        return self.counted or [Path(need).name for need in self.needs]


def parse(text: str) -> list[Row]:
    rows = []
    types = {each.name: each.type for each in fields(Row)}
    for name, table in tomllib.loads(text).items():
        for key, value in table.items():
            wanted = types.get(key, "no such field")
            if getattr(wanted, "__origin__", wanted) is not type(value):
                raise ValueError(f"{name}: {key} is {value!r}, which should be: {wanted}")
        rows.append(Row(name=name, **table))
    return rows


def load(folder: Path = HERE / "rows") -> list[Row]:
    rows = [row for path in sorted(folder.glob("*.toml"))
            for row in parse(path.read_text(encoding="utf-8"))]
    names = [row.name for row in rows]
    if len(set(names)) != len(names):
        raise ValueError(f"a name stands twice: {sorted(names)}")
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prints `name core|rare timeout` of each row.")
    parser.parse_args()
    for each in load():
        print(each.name, "core" if each.core else "rare", each.timeout)
