"""A simulated machine, read from manycore/machines/NAME.toml, in the words of the engine and of the
kernel's files.

Processors are numbered as Linux does on such machines: the first hardware thread of each core, core
by core and socket by socket, then the second ones. Any fault is a MachineError of one line.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmanycore import places

_PICO = 1000  # picoseconds in a nanosecond
_MOST_PROCESSORS = 512
Ns = Annotated[float, Field(ge=0, le=1e9)]


class MachineError(ValueError):
    """A machine that cannot be simulated, in one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Cache(_Table):
    kib: Annotated[int, Field(ge=1, le=1 << 22)]
    ways: Annotated[int, Field(ge=1, le=64)]
    ns: Ns


class Costs(_Table):
    """`[ns]`: what each operation costs; manycore/model/machine.h says what each is."""

    memory_local: Ns
    memory_remote: Ns
    transfer_core: Ns
    transfer_socket: Ns
    invalidate: Ns
    atomic: Ns
    basic_block: Ns
    system_call: Ns
    fault_small: Ns
    fault_huge: Ns
    zero_kibibyte: Ns
    unmap_page: Ns
    interrupt_send: Ns
    interrupt_take: Ns
    futex_wait: Ns
    futex_wake: Ns
    context_switch: Ns
    idle_wake: Ns
    quantum: Ns


class Machine(_Table):
    """The whole file."""

    description: str
    sockets: Annotated[int, Field(ge=1, le=16)]  # groups of cores that share an L3
    cores: Annotated[int, Field(ge=1, le=512)]  # of a socket
    threads: Annotated[int, Field(ge=1, le=8)]  # of a core
    # The time of computing while the core's other thread runs, in percent of the time alone.
    shared_core_percent: Annotated[int, Field(ge=100, le=1000)]
    distances: Annotated[list[list[Annotated[int, Field(ge=10, le=254)]]], Field(min_length=1)]
    huge_pages: bool = False  # transparent huge pages without madvise
    l1: Cache
    l2: Cache
    l3: Cache
    ns: Costs

    @property
    def nodes(self) -> int:
        return len(self.distances)

    @property
    def processors(self) -> int:
        return self.sockets * self.cores * self.threads

    def core_of(self, processor: int) -> int:
        return processor % (self.sockets * self.cores)

    def socket_of(self, processor: int) -> int:
        return self.core_of(processor) // self.cores

    def node_of(self, processor: int) -> int:
        return self.socket_of(processor) * self.nodes // self.sockets


@dataclass(frozen=True, slots=True)
class Named:
    """A valid machine, under the name of its file."""

    name: str
    machine: Machine


def names() -> list[str]:
    return sorted(path.stem for path in places.MACHINES.glob("*.toml"))


def load(name: str) -> Named:
    """The machine of this name, or of this file."""
    path = Path(name) if name.endswith(".toml") else places.MACHINES / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        machine = Machine.model_validate(table)
    except OSError:
        raise MachineError(f"there is no machine {name}; there are: {' '.join(names())}") from None
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"{path.name}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MachineError(f"{path.name}: {where}: {first['msg']}") from None
    _check(path.name, machine)
    return Named(path.stem, machine)


def _check(name: str, machine: Machine) -> None:
    nodes = machine.nodes
    if machine.processors > _MOST_PROCESSORS:
        raise MachineError(f"{name}: {machine.processors} processors, {_MOST_PROCESSORS} at most")
    if nodes > machine.sockets or machine.sockets % nodes:
        raise MachineError(f"{name}: {machine.sockets} sockets do not divide into {nodes} nodes")
    for number, row in enumerate(machine.distances):
        if len(row) != nodes or row[number] != 10:
            raise MachineError(f"{name}: row {number} of the distances is not {nodes} with a 10")


def lines(named: Named) -> list[str]:
    """The machine in the lines of the engine's description."""
    machine = named.machine
    numbers = range(machine.processors)
    listed: dict[str, list[str | int]] = {
        "name": [named.name],
        "processors": [machine.processors],
        "cores": [machine.sockets * machine.cores],
        "sockets": [machine.sockets],
        "nodes": [machine.nodes],
        "shared_core_percent": [machine.shared_core_percent],
        "core_of": [machine.core_of(i) for i in numbers],
        "socket_of": [machine.socket_of(i) for i in numbers],
        "node_of": [machine.node_of(i) for i in numbers],
        "huge_pages_always": [int(machine.huge_pages)],
    }
    made = [" ".join(map(str, [key, *values])) for key, values in listed.items()]
    for number, row in enumerate(machine.distances):
        made.append(" ".join(map(str, ["distance", number, *row])))
    for key, cache in (("l1", machine.l1), ("l2", machine.l2), ("l3", machine.l3)):
        made.append(f"{key} {cache.kib * 1024} {cache.ways} {_picoseconds(cache.ns)}")
    return made + [f"{key} {_picoseconds(value)}" for key, value in machine.ns]


def _picoseconds(ns: float) -> int:
    return round(ns * _PICO)


def write_topology(machine: Machine, online: int, folder: Path) -> None:
    """Writes what the kernel would have in /sys/devices/system, as far as allocators read it."""
    processors = list(range(online))
    nodes = sorted({machine.node_of(i) for i in processors})
    files = {f"cpu/{name}": ranges(processors) for name in ("online", "possible", "present")}
    files |= {
        f"node/{name}": ranges(nodes)
        for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory")
    }
    for node in nodes:
        own = [i for i in processors if machine.node_of(i) == node]
        files[f"node/node{node}/cpulist"] = ranges(own)
        row = [machine.distances[node][other] for other in nodes]
        files[f"node/node{node}/distance"] = " ".join(map(str, row))
    for i in processors:
        core = [j for j in processors if machine.core_of(j) == machine.core_of(i)]
        files[f"cpu/cpu{i}/topology/core_id"] = str(machine.core_of(i))
        files[f"cpu/cpu{i}/topology/physical_package_id"] = str(machine.node_of(i))
        files[f"cpu/cpu{i}/topology/thread_siblings_list"] = ranges(core)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")


def ranges(numbers: list[int]) -> str:
    """Numbers in the kernel's form: 0-3,8."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
