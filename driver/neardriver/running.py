"""`./near run`: a program on nearmalloc or a published design. Only the library is built."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from neardriver import groups, language, paths, products, programs
from neardriver.messages import Misuse

_POLICY = re.compile(r"interleave|saturate|off|file:.+")
_BINDS_ITSELF = "numalloc"


@dataclass(frozen=True)
class Request:
    """The command line of `./near run`, checked."""

    command: tuple[str, ...]
    design: str = ""
    bind: str = ""
    stats: bool = False
    leaks: bool = False
    leak_options: tuple[str, ...] = ()

    def targets(self) -> tuple[str, ...]:
        """What must be built."""
        library = f"near_design_{self.design}_library" if self.design else "nearmalloc"
        return (library, "nearbind") if self.preloads_binding() else (library,)

    def preloads_binding(self) -> bool:
        return bool(self.bind) and self.design != _BINDS_ITSELF

    def libraries(self) -> list[Path]:
        """What is preloaded."""
        tree = paths.tree("release")
        own = tree / "designs" / f"lib{self.design}.so" if self.design else None
        binding = [tree / "designs" / "libnearbind.so"] if self.preloads_binding() else []
        return [own or tree / "libnearmalloc.so", *binding]

    def variables(self, given: dict[str, str]) -> dict[str, str]:
        """The environment variables that say what is to be bound and printed."""
        changed = {"NEARMALLOC_STATS": "1"} if self.stats else {}
        if self.preloads_binding():
            changed["NEARBIND_OPTIONS"] = f"binding={self.bind}"
        elif self.bind:
            before = given.get("NEARMALLOC_DESIGN_OPTIONS")
            options = [*([before] if before else []), f"binding={self.bind}"]
            changed["NEARMALLOC_DESIGN_OPTIONS"] = ",".join(options)
        return changed

    def preload(self, given: dict[str, str]) -> str:
        """LD_PRELOAD: the allocator, the user's own libraries, the binding."""
        allocator, *binding = map(str, self.libraries())
        before = given.get("LD_PRELOAD")
        return ":".join([allocator, *([before] if before else []), *binding])


def designs() -> tuple[str, ...]:
    """The published designs, in the order of designs/list.txt."""
    lines = (paths.ROOT / "designs/list.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.split()[0] for line in lines if line and not line.startswith("#"))


def check(request: Request) -> None:
    """Raises Misuse if the request is wrong."""
    if not request.command:
        raise Misuse("run needs a program: ./near run -- PROGRAM ARGUMENT...")
    if request.design and request.design not in designs():
        raise Misuse(f"unknown design '{request.design}'; there are: {' '.join(designs())}")
    if request.bind and not _POLICY.fullmatch(request.bind):
        raise Misuse(f"unknown policy '{request.bind}'; there are: "
                     "interleave saturate file:PATH off")
    if "," in request.bind:
        raise Misuse("the path of --bind may not hold a comma")
    if request.leaks and request.design:
        raise Misuse("--leaks is for nearmalloc, not for a design")
    if request.leak_options and not request.leaks:
        raise Misuse(f"{request.leak_options[0]} needs --leaks")


def run(request: Request) -> NoReturn:
    """Builds what the request needs and replaces this process by the program."""
    check(request)
    if request.leaks:
        groups.need("tools")
    products.build(*request.targets())
    language.restore()
    given = dict(os.environ)
    variables = request.variables(given)
    if request.leaks:
        words = ["run", "--leaks", *request.leak_options, "--", *request.command]
        programs.tool(words, *request.libraries(), **variables)
    changed = {**variables, "LD_PRELOAD": request.preload(given)}
    words = [*(f"{name}={value}" for name, value in changed.items()), *request.command]
    os.execvp("env", ["env", *words])  # env itself runs without the library
