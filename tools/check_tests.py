#!/usr/bin/env python3
"""Every folder of src/ has a unit test tests/unit/<name>_test.cc, named after one of its files."""

from pathlib import Path

from checking import Example, Findings, run, sources


def check(root: Path, findings: Findings) -> None:
    tests = sources(root, "tests/unit", suffixes=(".cc",))
    tested = {path.stem.removesuffix("_test") for path in tests if path.stem.endswith("_test")}
    for folder in sorted(path for path in (root / "src").glob("*") if path.is_dir()):
        parts = {path.stem for path in sources(root, str(folder.relative_to(root)))}
        if not parts:
            continue
        findings.count()
        if not parts & tested:
            findings.fault(folder.relative_to(root), 0, "no part of it has a test in tests/unit "
                                                        f"(of {', '.join(sorted(parts))})")


EXAMPLES = [
    Example("tested", {"src/sync/inbox.h": "", "tests/unit/sync/inbox_test.cc": ""}, None),
    Example("untested", {"src/sync/inbox.h": "", "tests/unit/bits_test.cc": ""}, "src/sync: no"),
]

if __name__ == "__main__":
    run(__doc__, "folders", check, EXAMPLES)
