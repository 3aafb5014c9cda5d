"""Orders are balanced, and the memory that a run may meet is touched before."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from nearlab.runs import interleave


@pytest.mark.parametrize("count", range(1, 9))
def test_everyone_takes_every_place_and_follows_everyone_else(count):
    turns = count if count % 2 == 0 else 2 * count
    orders = [interleave.balanced(range(count), turn) for turn in range(turns)]
    everyone = Counter(list(range(count)) * (turns // count))
    assert all(Counter(order[place] for order in orders) == everyone for place in range(count))
    after = Counter(pair for order in orders for pair in pairwise(order))
    assert len(after) == count * (count - 1) and len(set(after.values())) <= 1


def test_touched_memory_is_given_back():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1])

    before = resident()
    interleave.touch_memory(64)
    assert (resident() - before) * 4096 < 32 << 20
