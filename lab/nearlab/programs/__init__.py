"""The real programs of the demo and of the lab's plans.

Invariant: every program of the demo spends more than 1 % of its time in malloc under glibc; the
lab has others too. The file of each program gives its share, sampled with perf under glibc 2.36.
"""

from .base import Program
from .gcc import Gcc
from .kvserver import KvServer
from .lammps import Lammps
from .mariadb import MariaDb
from .memcached import Memcached
from .nginx import Nginx
from .node import Node
from .pbzip2 import Pbzip2
from .python import Python
from .redis import Redis
from .ruby import Ruby
from .sqlite import Sqlite
from .z3 import Z3


def all_programs() -> list[Program]:
    """The programs of the demo, in the order of its table."""
    return [
        Python("python", "dicts and JSON", "default"),
        Python("python-malloc", "all from malloc", "malloc"),
        Sqlite(),
        Redis(),
        Gcc(),
        KvServer(),
    ]


def lab_programs() -> list[Program]:
    """All programs: those of the demo, then the other servers and commands."""
    return [
        *all_programs(),
        MariaDb(),
        Memcached(),
        Nginx(),
        Node(),
        Ruby(),
        Z3(),
        Pbzip2(),
        Lammps(),
    ]
