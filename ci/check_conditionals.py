#!/usr/bin/env python3
"""Only platform/ and base/ of common/ compile conditionally; elsewhere NEAR_CHECK and guards may.

Headers in include/nearmalloc may also test NEAR_MODEL, because the model checker explores them, and
__cplusplus, because C programs include them.
"""

import re
from pathlib import Path

from checking import CODE, Example, Findings, line_of, run, sources, without_comments

FREE_LAYERS = {"platform", "base"}
# What only one product needs of a processor.
OF_ONE_PRODUCT = {("designs", "super", "transaction.cc"), ("reclaim", "ticks.cc"),
                  ("reclaim", "ticks.h")}
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b[ \t]*(.*)$", re.MULTILINE)
GUARD = re.compile(r"[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\n[ \t]*#[ \t]*define[ \t]+\1\b")
NAME = re.compile(r"[A-Za-z_]\w*")
ALLOWED = {"NEAR_CHECK", "defined"}


def check(root: Path, findings: Findings) -> None:
    for path in sources(root, *CODE):
        findings.count()
        parts = path.relative_to(root).parts
        if (parts[0] == "common" and parts[1] in FREE_LAYERS) or parts in OF_ONE_PRODUCT:
            continue
        allowed = ALLOWED | ({"NEAR_MODEL", "__cplusplus"} if parts[0] == "include" else set())
        text = without_comments(path.read_text(encoding="utf-8"))
        for match in CONDITIONAL.finditer(text):
            names = set(NAME.findall(match.group(2))) - allowed
            if names and not GUARD.match(text, match.start()):
                line = line_of(text, match.start(1))
                findings.fault(path.relative_to(root), line,
                               f"conditional on {', '.join(sorted(names))}: "
                               "only platform/ and base/ may")


EXAMPLES = [
    Example("platform may", {"common/platform/a.h": "#ifdef __linux__\n#endif\n"}, None),
    Example("checks may", {"malloc/heap/a.cc": "#if NEAR_CHECK\n#endif\n"}, None),
    Example("guard", {"malloc/heap/a.h": "#ifndef A_H\n#define A_H\n#endif\n"}, None),
    Example("model", {"include/nearmalloc/impl/a.hpp": "#ifdef NEAR_MODEL\n#endif\n"}, None),
    Example("model in reclaim", {"reclaim/a.cc": "#ifdef NEAR_MODEL\n#endif\n"}, "NEAR_MODEL"),
    Example("system", {"malloc/heap/a.cc": "#if defined(__linux__)\n#endif\n"}, "__linux__"),
    Example("compiler", {"malloc/heap/a.cc": "#if 1\n#elif __clang__\n#endif\n"}, "__clang__"),
]

if __name__ == "__main__":
    run(__doc__, "files", check, EXAMPLES)
