"""The seconds of one command, by step. Downloads (apt, pip) are apart: they measure a network."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Seconds:
    begin: float = field(default_factory=time.monotonic)
    steps: list[tuple[str, str, float]] = field(default_factory=list)  # step, tree, seconds
    downloads: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, tree: str) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self.steps.append((name, tree, time.monotonic() - begin))

    @contextmanager
    def download(self, program: str) -> Iterator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - begin
            self.downloads[program] = self.downloads.get(program, 0.0) + spent

    def total(self) -> float:
        """All seconds so far without downloads."""
        return time.monotonic() - self.begin - sum(self.downloads.values())


SECONDS = Seconds()
