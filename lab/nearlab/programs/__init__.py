"""The real programs of the demo, in the order of the table.

Invariant: every program spends more than 1 % of its time in malloc under glibc; its file says how
much. Shares were sampled with perf under glibc 2.36.
"""

from .base import Program
from .gcc import Gcc
from .kvserver import KvServer
from .python import Python
from .redis import Redis
from .sqlite import Sqlite


def all_programs() -> list[Program]:
    return [
        Python("python", "dicts and JSON", "default"),
        Python("python-malloc", "all from malloc", "malloc"),
        Sqlite(),
        Redis(),
        Gcc(),
        KvServer(),
    ]
