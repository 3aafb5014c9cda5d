"""What is read from the memory of another process means the same as a plain reading of it."""

import json
import random
import struct

import pytest

from nearmalloc_tools.leaks.exit_report import checked
from nearmalloc_tools.leaks.scan import _Pointers
from nearmalloc_tools.top.census import _runs_of_true, uncarved_blocks
from nearmalloc_tools.top.record import Record
from test_leaks_watcher import EXIT_REPORT, block, site


def test_a_record_has_the_fields_in_the_order_that_was_asked_for():
    raw = b"".join(struct.pack("<IxxHQB3x", n, n + 1, n + 2, n + 3) for n in (10, 20))
    record = Record(20, [(16, "B"), (0, "I"), (8, "Q"), (6, "H")])
    assert list(record.all(raw)) == [(13, 10, 12, 11), (23, 20, 22, 21)]
    assert record.one(raw, 1) == (23, 20, 22, 21)


@pytest.mark.parametrize(
    "low,high",
    [
        (0x7F12_0000_0000, 0x7F12_0800_0000),
        (0x7EFF_FF00_0000, 0x7F00_0100_0000),
        (0x5D00_0000, 0x5E5D_0000_0000),  # the byte that is compared may be 0
        (0x40_0000, 0x41_0000),
    ],
)
def test_the_words_of_a_range_are_found_among_others(low, high):
    chance = random.Random(low)
    words = [chance.choice((0, low, high - 1, high, low - 1, 2**64 - 1)) for _ in range(2000)]
    words += [chance.randrange(low, high) for _ in range(2000)]
    words += [chance.randrange(2**64) for _ in range(2000)]
    chance.shuffle(words)
    raw = struct.pack(f"<{len(words)}Q", *words)
    found = list(_Pointers(low, high).find(raw))
    assert found == [(8 * i, word) for i, word in enumerate(words) if low <= word < high]
    assert len(found) > 2000


@pytest.mark.parametrize("size", [16, 48, 112, 704, 1024, 3072, 4096, 20480])
def test_a_bit_is_a_page_of_blocks_or_a_large_block(size):
    count = 65536 // size
    for bits in (0, 1, 0b1010, 0xFFFF_0000, 0xFFFF_FFFF):
        blocks = {
            each for begin, end in uncarved_blocks(bits, size, count) for each in range(begin, end)
        }
        page = (lambda i: i) if size >= 4096 else (lambda i: i * size // 4096)
        assert blocks == {each for each in range(count) if bits >> page(each) & 1}


def test_neighbours_that_are_true_are_a_run():
    assert list(_runs_of_true([True, True, False, True])) == [(0, 2), (3, 4)]
    assert list(_runs_of_true([])) == list(_runs_of_true([False])) == []


MODULE = {"start": 1, "end": 2, "offset": 0, "build_id": "", "file": "/bin/x"}
GOOD = [
    {"modules": [MODULE], "sites": [site(frames=[2**64 - 1])], "inherited": 1.5},
    {"sites": [site(moved_distance=None, remote_lifetimes=None)], "blocks": [block()]},
    {"sites": [site(freed_by_heap=[[-1, 5]]) | {"more": 1}], "more": []},
]
BAD = [
    {"pid": True},
    {"pid": 1.0},
    {"pid": 2**63},
    {"version": "1"},
    {"seconds": float("inf")},
    {"seconds": 10**400},
    {"inherited": "0"},
    {"modules": [MODULE | {"more": 1}]},
    {"modules": [MODULE | {"file": None}]},
    {"modules": {}},
    {"own": [[1, 2, 3]]},
    {"own": [[1, 2.5]]},
    {"sites": [site(allocated={"bytes": 1})]},
    {"sites": [site(frames=[2**64])]},
    {"sites": [site(frames=[1] * 1025)]},
    {"sites": [site(by_lifetime=[float("nan")])]},
    {"sites": [None]},
    {"sites": [site(), []]},
]


def exit_report(changes: dict) -> bytes:
    return json.dumps(EXIT_REPORT | changes).encode()


@pytest.mark.parametrize("changes", GOOD)
def test_a_report_of_the_right_shape_is_taken_as_it_is(changes):
    assert checked(exit_report(changes)) == EXIT_REPORT | changes


@pytest.mark.parametrize("changes", BAD, ids=lambda each: str(each)[:40])
def test_a_report_of_another_shape_is_refused(changes):
    with pytest.raises(ValueError, match="what it sends is no profile"):
        checked(exit_report(changes))


@pytest.mark.parametrize("name", sorted(EXIT_REPORT))
def test_a_report_without_a_number_is_refused(name):
    with pytest.raises(ValueError, match="what it sends is no profile"):
        checked(exit_report({}).replace(f'"{name}":'.encode(), b'"x":'))
