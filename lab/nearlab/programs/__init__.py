"""The real programs of the demo, in the order of the table.

Invariant: every program spends more than 1 % of its time in malloc under glibc; its file says how much.
"""

from .base import Program
from .gcc import Gcc
from .kvserver import KvServer
from .python import Python
from .redis import Redis
from .sqlite import Sqlite


def all_programs() -> list[Program]:
    return [
        Python("python", "Python, dictionaries and JSON", "default"),
        Python("python-malloc", "the same, PYTHONMALLOC=malloc", "malloc"),
        Sqlite(),
        Redis(),
        Gcc(),
        KvServer(),
    ]
