"""SIGTERM and SIGHUP end a command as Ctrl-C does, so that every child ends with it.

Invariant: when the context is left, the previous handlers are installed again.
Thread-safety: main thread only.
"""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within this context the two signals raise KeyboardInterrupt."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
