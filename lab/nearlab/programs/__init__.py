"""The real programs of the demo and of the lab's plans.

Invariant: every program of the demo spends more than 1 % of its time in malloc under glibc; the
lab has others too. The file of each program gives its share, sampled with perf under glibc 2.36.
"""

from nearlab.programs.base import Program
from nearlab.programs.gcc import Gcc
from nearlab.programs.kvserver import KvServer
from nearlab.programs.lammps import Lammps
from nearlab.programs.mariadb import MariaDb
from nearlab.programs.memcached import Memcached
from nearlab.programs.nginx import Nginx
from nearlab.programs.node import Node
from nearlab.programs.pbzip2 import Pbzip2
from nearlab.programs.python import Python
from nearlab.programs.redis import Redis
from nearlab.programs.ruby import Ruby
from nearlab.programs.sqlite import Sqlite
from nearlab.programs.z3 import Z3

PREFIX = "program:"  # what the name of a real program starts with in a plan


def by_name() -> dict[str, Program]:
    """All programs, in the order in which they are listed."""
    found: list[Program] = [
        Python("python", "dicts and JSON", "default"),
        Python("python-malloc", "all from malloc", "malloc"),
        Sqlite(),
        Redis(),
        Gcc(),
        KvServer(),
        MariaDb(),
        Memcached(),
        Nginx(),
        Node(),
        Ruby(),
        Z3(),
        Pbzip2(),
        Lammps(),
    ]
    return {program.name: program for program in found}
