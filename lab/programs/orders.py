"""The script orders.sql by Python's module sqlite3: a database in memory, without the shell.

Invariant: the printed rows depend only on the number of orders. The demo runs it as a child; it
imports nothing of the lab.
"""

import sqlite3
import sys
from pathlib import Path


def statements(text):
    """The statements of a script for the shell of SQLite; its dot-commands are left out."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += "" if line.startswith(".") else line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def main():
    """Argument: the number of orders."""
    script = Path(__file__).with_name("orders.sql").read_text(encoding="utf-8")
    script = script.replace(":rows", str(int(sys.argv[1])))
    database = sqlite3.connect(":memory:", isolation_level=None)
    for statement in statements(script):
        for row in database.execute(statement):
            print(*row, sep="|")


if __name__ == "__main__":
    main()
