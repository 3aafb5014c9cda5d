"""Ruby (lab/programs/words.rb): threads build, sort, cut and join strings, arrays and hashes.

Objects are slots in Ruby's own pages; what does not fit into a slot comes from malloc: 13 % of
the time with quick inputs, 17 % with the others.
Invariant: the printed digest depends on the number of rounds alone.
"""

from pathlib import Path

from nearlab.programs.base import SOURCES, Command, CommandProgram


class Ruby(CommandProgram):
    name = "ruby"
    title = "strings and hashes"
    needs = {"ruby": "ruby"}
    version = ("ruby", "--version")

    def __init__(self) -> None:
        self._rounds = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._rounds = 12 if quick else 50

    def command(self) -> Command:
        script = SOURCES / "words.rb"
        return Command(["ruby", "--disable-all", script, str(self._rounds)], env={"RUBYOPT": ""})
