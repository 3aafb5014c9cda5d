"""Small programs that stand in for others."""

from pathlib import Path


def script(path: Path, text: str) -> Path:
    """Writes a shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
