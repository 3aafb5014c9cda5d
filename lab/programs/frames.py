"""Writes the film that x264 encodes: squares that move over a pattern, as raw frames.

Invariant: the film depends on the argument alone, the number of frames. The lab runs it once.
"""

import random
import sys
from pathlib import Path

_WIDTH, _HEIGHT, _SQUARE = 320, 180, 40


def film(frames: int) -> bytes:
    rng = random.Random(17)
    ground = bytes(
        (x * y // 60 + x + rng.randrange(8)) % 220 + 16
        for y in range(_HEIGHT)
        for x in range(_WIDTH)
    )
    colour = bytes(128 for _ in range(_WIDTH * _HEIGHT // 2))
    parts = [f"YUV4MPEG2 W{_WIDTH} H{_HEIGHT} F25:1 Ip A1:1 C420jpeg\n".encode()]
    for number in range(frames):
        picture = bytearray(ground)
        for square in range(6):
            left = (number * (square + 2) + square * 50) % (_WIDTH - _SQUARE)
            top = (number * (6 - square) + square * 30) % (_HEIGHT - _SQUARE)
            for y in range(top, top + _SQUARE):
                begin = y * _WIDTH + left
                picture[begin : begin + _SQUARE] = bytes([40 + 30 * square]) * _SQUARE
        parts += [b"FRAME\n", bytes(picture), colour]
    return b"".join(parts)


if __name__ == "__main__":
    Path("film.y4m").write_bytes(film(int(sys.argv[1])))
