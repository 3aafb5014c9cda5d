"""pbzip2: threads compress blocks of a text that is written from a seed.

It is insensitive: less than 0.1 % of the time is spent in malloc. One thread allocates a few
buffers of a block's size, and another frees them: only memory differs between allocators.
Invariant: the compressed file depends on the text alone; blocks are written in order.
"""

import hashlib
import random
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import Command, CommandProgram


class Pbzip2(CommandProgram):
    name = "pbzip2"
    title = "compress text"
    needs = {"pbzip2": "pbzip2"}
    version = ("pbzip2", "--version")

    def __init__(self) -> None:
        self._text = Path()
        self._packed = Path()

    def prepare(self, folder: Path, quick: bool) -> None:
        self._text = folder / "text"
        self._packed = folder / "text.bz2"
        self._text.write_text(_text(1_000_000 if quick else 4_000_000))

    def command(self) -> Command:
        self._packed.unlink(missing_ok=True)
        return Command(["pbzip2", "-q", "-k", "-f", "-p4", "-b1", "-1", self._text])

    def answer(self, sample: measure.Sample) -> str:
        return hashlib.sha256(self._packed.read_bytes()).hexdigest()


def _text(words: int) -> str:
    """Random words, a few of which are frequent, as in a language."""
    rng = random.Random(11)
    known = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5000)]
    return " ".join(known[int(5000 * rng.random() ** 3)] for _ in range(words))
