#!/usr/bin/env python3
"""Each layer has a unit test in the folder of its name in tests/, named after one of its files."""

from pathlib import Path

from checking import Example, Findings, run, sources


def check(root: Path, findings: Findings) -> None:
    layers = [path for product in ("common", "malloc") for path in (root / product).glob("*")]
    for folder in sorted(path for path in layers if path.is_dir()):
        layer = folder.relative_to(root)
        parts = {path.stem for path in sources(root, str(layer))}
        if not parts:
            continue
        findings.count()
        tests = sources(root, f"tests/{layer}", suffixes=(".cc",))
        if not parts & {path.stem.removesuffix("_test") for path in tests}:
            findings.fault(layer, 0, f"no part of it has a test in tests/{layer} "
                                     f"(of {', '.join(sorted(parts))})")


EXAMPLES = [
    Example("tested", {"common/sync/inbox.h": "", "tests/common/sync/inbox_test.cc": ""}, None),
    Example("untested", {"malloc/span/a.h": "", "tests/malloc/span/b_test.cc": ""},
            "malloc/span: no"),
    Example("elsewhere", {"malloc/span/a.h": "", "tests/malloc/node/a_test.cc": ""},
            "malloc/span: no"),
]

if __name__ == "__main__":
    run(__doc__, "folders", check, EXAMPLES)
