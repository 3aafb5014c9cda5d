"""Prints the text that pbzip2 compresses: random words, of which a few are frequent.

Invariant: the text depends on the argument alone, the number of words. The lab runs it once.
"""

import random
import sys


def text(words: int) -> str:
    rng = random.Random(11)
    known = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5000)]
    return " ".join(known[int(5000 * rng.random() ** 3)] for _ in range(words))


if __name__ == "__main__":
    print(text(int(sys.argv[1])), end="")
