"""`./near lab pictures` draws what docs show, and the pictures in docs are small."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearlab import places

MOST_BYTES = 200_000
PICTURES = {"profile-page.png": "profile.md", "top.png": "memory.md"}
_MISSING = [name for name in ("chromium", "chromedriver", "c++") if not shutil.which(name)]


def size_of(picture: Path) -> tuple[int, int]:
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")
def test_they_are_drawn(tmp_path):
    words = ["-o", str(tmp_path), "--requests", "20000", "--seconds", "1"]
    result = subprocess.run(
        [sys.executable, "-m", "nearlab", "pictures", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for name in PICTURES:
        width, height = size_of(tmp_path / name)
        assert 300 < width < 1400 and 300 < height < 1400
        # How wide the text is, and whether it is there, is a matter of the fonts.
        assert 3_000 < (tmp_path / name).stat().st_size < MOST_BYTES


def test_those_of_docs_are_small_and_shown():
    for name, page in PICTURES.items():
        assert 20_000 < (places.ROOT / "docs" / name).stat().st_size < MOST_BYTES
        assert f"]({name})" in (places.ROOT / "docs" / page).read_text(encoding="utf-8")
