#!/usr/bin/env python3
"""A layer of common/ and malloc/ includes only itself and lower layers; reclaim/ and designs only
the lowest layers and their own files. Each folder of manycore/ includes only itself and those
before it. lab/ neither includes nor imports what is in vm/. tools/ imports none of the packages of
the lab and of the machines."""

import re
from pathlib import Path

from checking import Example, Findings, line_of, run, sources

LAYERS = {
    "common": ["base", "platform", "sync"],
    "malloc": ["sizes", "span", "node", "heap", "profile", "front", "inspect", "shim"],
}
ORDER = [layer for layers in LAYERS.values() for layer in layers]
OF_RECLAIM = {"base", "platform", "sync", "reclaim", "nearmalloc/impl", "nearmalloc/reclaim",
              "nearmalloc/reclaim.h"}
# A design uses the lowest layers and the parts that all designs share. Two headers of front/
# connect it with the shim and with the handling of invalid pointers.
OF_DESIGNS = {"base", "platform", "sync", "designs/shared", "sizes/size_class.h",
              "front/front.h", "front/invalid.h", "this_design.h"}
# The simulated machine, which includes nothing of the allocator.
OF_MANYCORE = ("model", "engine", "runtime")
# Installed headers may include only installed headers.
OF_HEADERS = {"nearmalloc/impl", "nearmalloc/reclaim"}
# Every layer may include these: the public header, and the model checker's replacements
# (tests/model).
OUTSIDE = {"nearmalloc/nearmalloc.h", "model_atomic.h", "model_fence.h"}
# Installed headers that the allocator uses too. Only this layer includes each, for the others.
SHARED = {"base": "nearmalloc/impl/atomic.hpp", "platform": "nearmalloc/impl/fence.hpp"}
# The tools are installed without these packages.
NOT_OF_TOOLS = {"nearlab", "nearvm", "nearmanycore", "neardriver"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)


def check(root: Path, findings: Findings) -> None:
    for path in sources(root, *LAYERS):
        name = path.relative_to(root)
        product, layer = name.parts[:2]
        if layer not in LAYERS[product]:
            findings.fault(name, 0, f"the folder '{layer}' is no layer")
            continue
        allowed = {*ORDER[: ORDER.index(layer) + 1], SHARED.get(layer, layer)}
        check_file(path, name, allowed, f"layer {layer}", findings)
    for path in sources(root, "reclaim", suffixes=(".h", ".hpp", ".cc")):
        check_file(path, path.relative_to(root), OF_RECLAIM, "reclaim", findings)
    for path in sources(root, "designs"):
        name = path.relative_to(root)
        own = "/".join(name.parts[:2])
        check_file(path, name, OF_DESIGNS | {own}, own, findings)
    for path in sources(root, "include/nearmalloc/impl", "include/nearmalloc/reclaim"):
        check_file(path, path.relative_to(root), OF_HEADERS, "an installed header", findings)
    for number, layer in enumerate(OF_MANYCORE):
        for path in sources(root, f"manycore/{layer}"):
            allowed = set(OF_MANYCORE[: number + 1])
            check_file(path, path.relative_to(root), allowed, f"manycore/{layer}", findings)
    check_uses(root, "lab", (".h", ".cc", ".c", ".py"), {"vm", "nearvm"}, findings)
    check_uses(root, "tools", (".py",), NOT_OF_TOOLS, findings)


def check_uses(root: Path, folder: str, suffixes: tuple[str, ...], forbidden: set[str],
               findings: Findings) -> None:
    for path in sources(root, folder, suffixes=suffixes):
        text = path.read_text(encoding="utf-8")
        for match in (IMPORT if path.suffix == ".py" else INCLUDE).finditer(text):
            findings.count()
            if forbidden & set(re.split(r"[./]+", match.group(1))):
                findings.fault(path.relative_to(root), line_of(text, match.start(1)),
                               f"{folder} may not use {match.group(1)}")


def check_file(path: Path, name: Path, allowed: set[str], who: str, findings: Findings) -> None:
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        findings.count()
        included = match.group(1)
        folders = {included, included.split("/")[0], "/".join(included.split("/")[:2])}
        if included not in OUTSIDE and not folders & allowed:
            line = line_of(text, match.start(1))
            findings.fault(name, line, f"{who} may not include {included}")


EXAMPLES = [
    Example("downward", {"malloc/span/a.h": '#include "base/bits.h"\n#include "span/b.h"\n'}, None),
    Example("upward", {"common/sync/a.h": '#include "heap/heap.h"\n'},
            "sync may not include heap/"),
    Example("not a layer", {"malloc/extra/a.h": '#include "base/bits.h"\n'}, "is no layer"),
    Example("relative", {"malloc/heap/a.h": '#include "../front/a.h"\n'}, "may not include"),
    Example("headers of reclaim",
            {"reclaim/a.cc": '#include "nearmalloc/reclaim/impl/core.hpp"\n'}, None),
    Example("shared", {"common/base/a.h": '#include "nearmalloc/impl/atomic.hpp"\n'}, None),
    Example("shared too", {"common/platform/a.h": '#include "nearmalloc/impl/fence.hpp"\n'}, None),
    Example("shared above base", {"common/sync/a.h": '#include "nearmalloc/impl/atomic.hpp"\n'},
            "sync may not include nearmalloc/impl"),
    Example("installed", {"include/nearmalloc/reclaim/a.hpp": '#include "base/bits.h"\n'},
            "an installed header may not include base/"),
    Example("design", {"designs/one/a.h": '#include "designs/shared/a.h"\n'
                                          '#include "designs/one/b.h"\n'}, None),
    Example("two designs", {"designs/one/a.h": '#include "designs/two/b.h"\n'},
            "designs/one may not include designs/two"),
    Example("design above", {"designs/one/a.h": '#include "heap/heap.h"\n'}, "may not include"),
    Example("manycore", {"manycore/engine/a.h": '#include "model/memory.h"\n'}, None),
    Example("manycore upward", {"manycore/model/a.h": '#include "engine/fiber.h"\n'},
            "manycore/model may not include engine/"),
    Example("lab", {"lab/a.py": "from nearlab import b\n", "lab/a.h": '#include "b.h"\n'}, None),
    Example("lab imports vm", {"lab/a.py": "import nearvm.runs\n"}, "lab may not use nearvm"),
    Example("lab includes vm", {"lab/w/a.h": '#include "../../vm/p.h"\n'}, "lab may not use"),
    Example("tools", {"tools/a.py": "from nearmalloc_tools import b\n"}, None),
    Example("lab imports tools", {"lab/a.py": "from nearmalloc_tools import b\n"}, None),
    Example("tools import lab", {"tools/tools/a.py": "def f():\n    import nearlab.plan\n"},
            "tools may not use nearlab.plan"),
    Example("tools import vm", {"tools/a.py": "from nearvm import b\n"}, "tools may not use"),
    Example("tools import manycore", {"tools/a.py": "import nearmanycore\n"}, "tools may not use"),
    Example("tools import driver", {"tools/a.py": "import neardriver\n"}, "tools may not use"),
    Example("reclaim", {"reclaim/a.hpp": '#include "heap/heap.h"\n'}, "reclaim may not"),
]

if __name__ == "__main__":
    run(__doc__, "includes", check, EXAMPLES)
