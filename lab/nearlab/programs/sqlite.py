"""The sqlite3 shell with a database in memory (lab/programs/orders.sql): joins, JSON, aggregates.

6 % of the time is spent in malloc.
Invariant: the printed rows depend on the number of rows inserted alone.
"""

from pathlib import Path

from nearlab.programs.base import SOURCES, Command, CommandProgram


class Sqlite(CommandProgram):
    name = "sqlite"
    title = "in-memory joins"
    needs = {"sqlite3": "sqlite3"}
    version = ("sqlite3", "--version")

    def __init__(self) -> None:
        self._script = Path()

    def prepare(self, folder: Path, quick: bool) -> None:
        rows = 60_000 if quick else 240_000
        self._script = folder / "orders.sql"
        self._script.write_text((SOURCES / "orders.sql").read_text().replace(":rows", str(rows)))

    def command(self) -> Command:
        return Command(
            ["sqlite3", "-init", "/dev/null", "-batch", "-bail", ":memory:"], stdin=self._script
        )
