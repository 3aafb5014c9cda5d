"""The allocators that are measured: where each library is, its version, or why it is missing.

Invariant: a missing allocator is a recorded reason, never an exception; a version is what the
loaded library itself says. `find` looks and changes nothing; `ensure` also installs and builds.
"""

from nearlab.peers.allocator import Allocator
from nearlab.peers.registry import CORE, NAMES, ensure, find, find_all, is_name, known, switched

__all__ = [
    "CORE",
    "NAMES",
    "Allocator",
    "ensure",
    "find",
    "find_all",
    "is_name",
    "known",
    "switched",
]
