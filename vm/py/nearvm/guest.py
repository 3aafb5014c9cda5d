"""What runs in a guest: steps, each a small script, with the programs they need.

Invariant: a step runs one program, within its Limits, under its allocator; the first step
reports how the kernel read the topology. Programs and allocators are in /lab of the guest.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearvm import folders
from nearvm.initramfs import Archive

FACTS = "facts"  # the name of the first step
_FACTS = """\
node=/sys/devices/system/node
echo "{\\"kernel\\": \\"$(uname -r)\\", \\"online\\": \\"$(cat $node/online)\\", \
\\"memory\\": \\"$(cat $node/has_memory)\\", \\"cpus\\": \\"$(cat $node/has_cpu)\\"}"
"""
_BOX = "/sys/fs/cgroup/box"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program in the guest may not do or have."""

    mems: str = ""  # the nodes of its cpuset, such as `0,2`
    refuse: str = ""  # "mbind"; or "policies": also get_mempolicy and set_mempolicy
    no_sysfs: bool = False
    membind: str = ""  # the nodes of its memory policy, as for numactl --membind
    interleave: str = ""  # the same, as for numactl --interleave
    fill: str = ""  # NODE:MIB: another process leaves this much of the node's memory


@dataclass(frozen=True, slots=True)
class Step:
    """One program and how it runs."""

    name: str
    program: Path
    arguments: Sequence[str] = ()
    library: Path | None = None  # preloaded, if there is one
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()

    def script(self) -> str:
        """The shell script of the step. `env` is a separate program without libraries: the
        allocator is preloaded into the measured program alone."""
        lines = []
        if self.limits.mems:
            lines += [
                "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control",
                f"mkdir -p {_BOX}",
                f"echo {shlex.quote(self.limits.mems)} >{_BOX}/cpuset.mems || exit 125",
                f"echo $$ >{_BOX}/cgroup.procs || exit 125",
            ]
        words = [*self.confinement(), "env", *self._assignments(), _inside(self.program)]
        lines.append("exec " + shlex.join([*words, *self.arguments]))
        return "\n".join(lines) + "\n"

    def confinement(self) -> list[str]:
        """The launcher's command, if the limits need it."""
        limits = self.limits
        words = ["--no-sysfs"] if limits.no_sysfs else []
        values = {
            "--refuse": limits.refuse,
            "--membind": limits.membind,
            "--interleave": limits.interleave,
            "--fill": limits.fill,
        }
        for option, value in values.items():
            words += [option, value] if value else []
        return [_inside(folders.program("confine")), *words, "--"] if words else []

    def _assignments(self) -> list[str]:
        preload = {"LD_PRELOAD": _inside(self.library)} if self.library else {}
        return [f"{name}={value}" for name, value in {**self.environment, **preload}.items()]


def _inside(path: Path) -> str:
    """The path of a program or a library in the guest."""
    return f"/lab/{path.name}"


def archive(steps: Sequence[Step], busybox: Path, more: Mapping[str, Path] | None = None) -> bytes:
    """The initramfs for some steps; `more` are other files by their path in the guest."""
    made = Archive()
    made.file("init", folders.guest() / "init")
    made.file("bin/busybox", busybox)
    made.folder("steps")
    made.text(f"steps/00-{FACTS}", _FACTS)
    sources = {folders.program("confine")} if any(step.confinement() for step in steps) else set()
    for number, step in enumerate(steps, 1):
        made.text(f"steps/{number:02}-{step.name}", step.script())
        sources |= {step.program} | ({step.library} if step.library else set())
    made.programs("lab", sorted(sources))
    for path, source in (more or {}).items():
        made.program(path, source)
    return made.to_bytes()
