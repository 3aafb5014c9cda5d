#!/usr/bin/env python3
"""Where memory lies is random, and one address does not give another.

Invariant: over RUNS processes, the estimated number of random bits of an address is at least what
docs/decisions/0025-keys-and-places.md says.
"""

import math

from preload import PROGRAMS, PreloadTest, count, main, run

RUNS = 200
# The entropy of a bit that is 1 in half of RUNS runs is estimated as less than this once in 10^5.
FAIR = 0.93


def entropy(values: list[int]) -> float:
    """The sum over all bits of the entropy that the share of ones in `values` shows: a bit counts
    as 1 if no test tells it from a fair coin."""
    total = 0.0
    for bit in range(64):
        share = sum(value >> bit & 1 for value in values) / len(values)
        if share in (0, 1):
            continue
        bits = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
        total += 1 if bits > FAIR else bits
    return total


class Placement(PreloadTest):
    runs: list[tuple[int, int, int]] = []

    def setUp(self) -> None:
        while len(self.runs) < RUNS:
            result = run([PROGRAMS / "placed"])
            self.assert_good(result)
            block, spans, key = (int(word, 16) for word in result.out.split())
            self.runs.append((block, spans, key))
            count()

    def test_the_address_of_a_small_block_has_28_random_bits(self) -> None:
        blocks = [block for block, _, _ in self.runs]
        self.assertGreaterEqual(entropy(blocks), 28)
        # Of 200 values of 28 bits two are the same once in 13,000 times.
        self.assertGreater(len(set(blocks)), RUNS - 2)

    def test_the_window_has_24_random_bits(self) -> None:
        self.assertGreaterEqual(entropy([block >> 21 for block, _, _ in self.runs]), 23)

    def test_the_block_does_not_tell_where_descriptors_are(self) -> None:
        self.assertGreaterEqual(entropy([spans >> 21 for _, spans, _ in self.runs]), 23)
        self.assertGreaterEqual(entropy([(block - spans) % (1 << 64) >> 21
                                         for block, spans, _ in self.runs]), 23)

    def test_no_two_processes_have_the_same_key(self) -> None:
        self.assertEqual(len({key for _, _, key in self.runs}), RUNS)
        self.assertGreaterEqual(entropy([key for _, _, key in self.runs]), 60)


if __name__ == "__main__":
    main()
