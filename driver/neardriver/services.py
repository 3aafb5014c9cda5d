"""Installing a package for its program should not start its service.

A temporary policy denies the start, and the links that would start it at the next boot are removed.
"""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
MARK = "# temporary policy of nearmalloc's ./near"
LINKS = "/etc/systemd/system/*.wants/*.service"


def _is_ours(policy: Path) -> bool:
    """Whether the policy is one that an earlier command left behind."""
    return policy.exists() and MARK in policy.read_text(encoding="utf-8", errors="replace")


@contextmanager
def denied(policy: Path = POLICY, links: str = LINKS) -> Iterator[None]:
    enabled_before = set(glob.glob(links))
    if not policy.exists() or _is_ours(policy):
        policy.write_text(f"#!/bin/sh\n{MARK}\nexit 101\n", encoding="utf-8")
        policy.chmod(0o755)
    try:
        yield
    finally:
        for link in set(glob.glob(links)) - enabled_before:
            Path(link).unlink(missing_ok=True)
        if _is_ours(policy):
            policy.unlink()
