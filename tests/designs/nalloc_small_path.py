#!/usr/bin/env python3
"""nalloc's path for small blocks is less than 500 lines, as its page says, and refers to no lock.

The path is what malloc and free of a small block may run; threads' entry and exit refer to no lock
either, but are not counted.
"""

import os
import subprocess
import sys
from pathlib import Path

LIMIT = 500
SMALL_PATH = ("nalloc.h", "heap.h", "heap.cc", "slab.h", "wayward.h", "pages.h", "pages.cc")
LOCK_FREE = ("heap.cc", "pages.cc", "heaps.cc", "upkeep.cc", "coalescing.cc", "arena.cc")
LOCKS = ("Mutex", "futex", "pthread_mutex")


def lines_of_code(text: str) -> int:
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


def main() -> int:
    folder = Path(os.environ["NEAR_TEST_SOURCES"])
    total = sum(lines_of_code((folder / name).read_text()) for name in SMALL_PATH)
    print(f"{total} lines of code in the small path, less than {LIMIT} claimed")
    failed = total >= LIMIT or total == 0

    objects = [path for path in os.environ["NEAR_TEST_OBJECTS"].split(",")
               if Path(path).name.removesuffix(".o") in LOCK_FREE]
    for path in objects:
        symbols = subprocess.run(["nm", "-u", path], check=True, capture_output=True, text=True)
        bad = [line for line in symbols.stdout.splitlines() if any(lock in line for lock in LOCKS)]
        for line in bad:
            print(f"{Path(path).name} refers to {line.split()[-1]}")
        failed = failed or bool(bad)
    if len(objects) != len(LOCK_FREE):
        print(f"{len(objects)} objects, {len(LOCK_FREE)} expected")
        failed = True
    print(f"cases: {len(objects) + 1}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
