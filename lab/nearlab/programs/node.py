"""Node (lab/programs/ledger.js): buffers, maps, text and compression.

V8 keeps its objects in its own memory; buffers, zlib and the compiler's zones come from malloc:
12 % of the time with quick inputs, 18 % with the others.
Invariant: the printed digest depends on the number of rounds alone.
"""

from pathlib import Path

from nearlab.programs.base import SOURCES, Command, CommandProgram


class Node(CommandProgram):
    name = "node"
    title = "buffers and JSON"
    needs = {"node": "nodejs"}
    version = ("node", "--version")

    def __init__(self) -> None:
        self._rounds = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._rounds = 40 if quick else 160

    def command(self) -> Command:
        return Command(["node", SOURCES / "ledger.js", str(self._rounds)], env={"NODE_OPTIONS": ""})
