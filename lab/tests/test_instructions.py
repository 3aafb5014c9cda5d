"""The counts are exact on a known malloc, and ours are no worse than those reached before."""

import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from nearlab.measure import instructions

PINNED = tomllib.loads(Path(__file__).with_name("instructions.toml").read_text())
VARIES = PINNED.pop("varies")
ROUNDING = 0.05


def most(mode: str, size: int) -> float:
    return PINNED[mode][str(size)] + VARIES.get(mode, {}).get(str(size), ROUNDING)


@pytest.mark.parametrize("mode,size,expected", [("pair", 16, 130), ("batch", 64, 181)])
def test_instructions_of_a_known_malloc_are_counted_exactly(found, mode, size, expected):
    if found["glibc"].version != "2.36":
        pytest.skip("the known counts are of glibc 2.36")
    counts = instructions.count([found["glibc"]], modes=[mode], sizes=[size])
    assert counts["glibc"][mode, size] == pytest.approx(expected, abs=0.2)


def test_every_mode_and_size_is_pinned():
    assert set(PINNED) == set(instructions.MODES)
    assert all({int(size) for size in PINNED[mode]} == set(instructions.SIZES) for mode in PINNED)


def test_instructions_stay_within_what_was_reached(found):
    ours = found["nearmalloc"]
    if not ours.available:
        pytest.skip(ours.missing)
    counts = instructions.count([ours])[ours.name]
    assert len(counts) == len(instructions.MODES) * len(instructions.SIZES)
    above = {
        f"{mode} {size}": value
        for (mode, size), value in counts.items()
        if isinstance(value, str) or value > most(mode, size)
    }
    assert not above, "more than instructions.toml has"


def test_a_count_above_its_limit_is_marked(found):
    ours = found["nearmalloc"]
    counts = {key: float(limit) for key, limit in instructions.LIMITS.items()}
    counts["pair", 256] += 0.1
    counts["batch", 16] = "no count"
    console = Console(record=True, width=120)
    console.print(instructions.table([ours], {ours.name: counts}))
    text = console.export_text()
    assert text.count("above") == 1 and "36.1 above" in text and "no count" in text
