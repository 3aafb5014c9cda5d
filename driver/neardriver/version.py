"""The version of nearmalloc. Only include/nearmalloc/nearmalloc.h states it."""

import re

from neardriver.paths import ROOT

_PART = re.compile(r"^#define NEAR_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$", re.MULTILINE)


def of_header(text: str) -> str:
    parts = dict(_PART.findall(text))
    return ".".join(parts[name] for name in ("MAJOR", "MINOR", "PATCH"))


def version() -> str:
    return of_header((ROOT / "include/nearmalloc/nearmalloc.h").read_text(encoding="utf-8"))
