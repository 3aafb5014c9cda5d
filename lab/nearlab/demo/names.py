"""What the demo can run, by name; needs only Python itself, for ./near asks before it installs.

Invariant: PEAK comes first, then the programs in the order in which they run.
"""

import tomllib
from collections.abc import Sequence

from nearlab import places
from nearlab.demo import tasks

PEAK = "peak"  # memory after a peak


def known(long: bool) -> list[str]:
    if not long:
        return [PEAK, *(task.name for task in tasks.TASKS)]
    plan = (places.plans_dir() / "demo.toml").read_text(encoding="utf-8")
    return [PEAK, *(workload["name"] for workload in tomllib.loads(plan)["workload"])]


def chosen(words: Sequence[str], long: bool) -> list[str]:
    """The names that --only selects; a word may be a list with commas. Raises ValueError."""
    every = known(long)
    wanted = [name for word in words for name in word.split(",") if name] or every
    unknown = set(wanted) - set(every)
    if unknown:
        raise ValueError(
            f"no program is called {', '.join(sorted(unknown))}; there are {', '.join(every)}"
        )
    return [name for name in every if name in wanted]
