"""Progress of a step on stderr: one updated line on a terminal; elsewhere a line at its begin and
one at its end.

Invariant: a step that never starts prints nothing. A time left is at least one second.
"""

import sys
import threading
import time
from types import TracebackType
from typing import Self

from neardriver.messages import clock_time, say

_REDRAW = 1.0  # seconds


def time_left(expected: float, elapsed: float, done: int, total: int) -> float:
    """The seconds left: by the estimate at first, by the rate so far towards the end."""
    share = min(done / total, 1.0) if total else 0.0
    by_estimate = max(expected * (1 - share), 0.0) if done else max(expected - elapsed, 0.0)
    by_rate = elapsed * (1 - share) / share if done else by_estimate
    return max(share * by_rate + (1 - share) * by_estimate, 1.0)


class Step:
    """A step with an expected duration in seconds; `update` starts it and counts its parts."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.expected: float | None = None
        self.done = self.total = 0
        self._begin: float | None = None
        self._ended = threading.Event()
        self._terminal = sys.stderr.isatty()
        self._thread = threading.Thread(target=self._redraw, daemon=True)

    def __enter__(self) -> Self:
        return self

    def start(self, expected: float | None = None) -> Self:
        if self._begin is None:
            self.expected = expected
            self._begin = time.monotonic()
            if self._terminal:
                self._thread.start()
            else:
                say(self.what)
        return self

    def update(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def tell(self, message: str) -> None:
        """Prints a line above the updated one."""
        self._erase()
        print(message, file=sys.stderr, flush=True)

    def line(self) -> str:
        """The updated line."""
        elapsed = time.monotonic() - (self._begin or time.monotonic())
        parts = f" {self.done}/{self.total}" if self.total else ""
        if self.expected is None:
            return f"near: {self.what}{parts}, {clock_time(elapsed)}"
        left = time_left(self.expected, elapsed, self.done, self.total)
        return f"near: {self.what}{parts}, about {clock_time(left)} left"

    def _redraw(self) -> None:
        while True:
            print(f"\r\033[K{self.line()}", end="", file=sys.stderr, flush=True)
            if self._ended.wait(_REDRAW):
                return

    def _erase(self) -> None:
        if self._terminal and self._begin is not None:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._begin is None:
            return
        seconds = time.monotonic() - self._begin
        if self._terminal:
            self._ended.set()
            self._thread.join()
            self._erase()
        else:
            say(f"{self.what}: {'failed' if kind else 'done'} after {seconds:.0f} s")
