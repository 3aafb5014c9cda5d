"""Writes the pages of nginx and apache2 into a new folder `pages`: three sizes, and all in one.

Invariant: the pages depend on nothing. The lab runs it once.
"""

import random
from pathlib import Path

_PAGES = {"small": 90, "medium": 900, "large": 9000}  # words

if __name__ == "__main__":
    folder = Path("pages")
    folder.mkdir()
    folder.chmod(0o755)
    rng = random.Random(3)
    for name, words in _PAGES.items():
        text = " ".join(rng.choice(("heap", "span", "page", "block")) for _ in range(words))
        (folder / f"{name}.html").write_text(text)
    parts = "".join(f'<!--#include virtual="/{name}.html"-->' for name in _PAGES)
    (folder / "joined.html").write_text(parts)
