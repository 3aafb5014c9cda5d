"""`near block` says what lies on both sides of a block, also beyond its span."""

import re
from collections.abc import Iterator

import pytest

from nearmalloc_tools.debugger.debugger_commands import DebuggerCommands
from nearmalloc_tools.top import process as reading
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.census import Reader
from test_top import program

LARGE = 300_000
SCRIPT = f"""
import ctypes, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
small = [libc.malloc(700) for _ in range(1000)]
large = [libc.malloc({LARGE}) for _ in range(40)]
for block in large[10:20]: libc.free(block)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with program(script=SCRIPT, NEARMALLOC_DECAY_MS="600000") as child:
        process = reading.Process(child.pid)
        yield Reader(process, reading.find_layout(process))


def beside(words: DebuggerCommands, address: int) -> tuple[str, str]:
    """What is before and after the block that has the address."""
    _, before, after, span = words.block(address)
    assert before.startswith("before: ") and after.startswith("after: ") and "span 0x" in span
    return before.removeprefix("before: "), after.removeprefix("after: ")


def place(text: str) -> int:
    return int(re.search(r" at (0x\w+)", text)[1], 16)


@pytest.fixture(scope="module")
def blocks(reader: Reader) -> Blocks:
    return Blocks(reader)


@pytest.fixture(scope="module")
def words(reader: Reader) -> DebuggerCommands:
    return DebuggerCommands(reader)


def span_at(blocks: Blocks, address: int) -> int:
    span = blocks.span_of(address)
    assert span is not None
    return span


def test_neighbouring_large_blocks_name_each_other(words: DebuggerCommands, blocks: Blocks) -> None:
    pairs = 0
    for start, large, offset in zip(blocks.start, blocks.large, blocks.offset, strict=True):
        if not large or offset:
            continue
        _, after = beside(words, start)
        if after.startswith("a live large block") and f"{LARGE} bytes" in words.block(start)[0]:
            before, _ = beside(words, place(after))
            assert before == f"a live large block at {start:#x}: {LARGE} bytes asked for"
            pairs += 1
    assert pairs >= 10


def test_what_was_freed_beside_a_large_block_is_free_memory(
    words: DebuggerCommands, blocks: Blocks, reader: Reader
) -> None:
    found = 0
    for span in [span for span, large in enumerate(blocks.large) if large]:
        _, after = beside(words, blocks.start[span] + blocks.offset[span])
        if free := re.fullmatch(r"(\d+) bytes of free memory at (0x\w+)", after):
            size, start = int(free[1]), int(free[2], 16)
            assert start == blocks.start[span] + blocks.bytes[span]
            assert size % reader.layout["slice.bytes"] == 0
            for inside in (start, start + size - 1):
                assert blocks.span_of(inside) is None
                expected = f"is in no span: it is in {size} bytes of free memory at {start:#x}"
                assert words.block(inside) == [f"{inside:#x} {expected}"]
            found += 1
    assert found >= 1


def test_the_first_and_the_last_block_of_a_span_have_neighbours_outside(
    words: DebuggerCommands, blocks: Blocks
) -> None:
    starts, sizes = blocks.start, blocks.size
    spans = [
        span
        for span in range(1, len(starts) - 1)
        if sizes[span - 1] == sizes[span] == 704 and starts[span] - starts[span - 1] == 65536
    ]
    assert len(spans) >= 5
    for span in spans:
        start, before_it = starts[span], starts[span - 1]
        before, after = beside(words, start)
        unused = f"unused bytes of a span of blocks of 704 bytes at {before_it:#x}"
        assert before == f"outside the span, {unused}"
        assert after.endswith(f" block of 704 bytes at {start + 704:#x}")
        last = blocks.start_of(blocks.first[span + 1] - 1)
        before, after = beside(words, last)
        assert before.endswith(f" block of 704 bytes at {last - 704:#x}")
        assert after.startswith("unused bytes of the span, then ")


def test_memory_of_others_is_said_to_be_not_mapped(words: DebuggerCommands, blocks: Blocks) -> None:
    expected = "memory that nearmalloc has not mapped"
    assert words.block(4096) == [f"0x1000 is in no span: it is in {expected}"]
    assert beside(words, blocks.start[0] + blocks.offset[0])[0].endswith(expected)
