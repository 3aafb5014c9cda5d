"""A machine of NUMA nodes, read from vm/topologies, in the words of QEMU and of the kernel.

Invariant: a Topology that was made can be booted, and the kernel numbers nodes and processors as
the file does: the processors of a node follow those of the node before; the nodes without
processors, which the kernel numbers last, are last. Any fault is a TopologyError of one line that
names the file and the key.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from nearvm import files, folders

_MIB = 1024 * 1024
_MOST_MIB = 3072  # memory is one range of addresses, because absent nodes are hidden by address
_LEAST_MIB = 32  # per node; the kernel drops one of less than 4
_NEAR, _FAR = 10, 20  # the kernel's assumption where no distances are given


class TopologyError(ValueError):
    """A topology that cannot be built, in one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Node(_Table):
    """`[[node]]`, in the order of their numbers."""

    cpus: Annotated[int, Field(ge=0, le=64)] = 0
    memory_mib: Annotated[int, Field(ge=0)] = 0
    absent: bool = False  # a hole in the numbers: the kernel does not have this node


class _Keys(_Table):
    """The whole file."""

    description: str
    node: Annotated[list[Node], Field(min_length=1, max_length=64)]
    distances: list[list[Annotated[int, Field(ge=10, le=254)]]] = []  # row by row


@dataclass(frozen=True, slots=True)
class Topology:
    """A valid topology, under the name of its file."""

    name: str
    keys: _Keys

    @property
    def nodes(self) -> list[Node]:
        return self.keys.node

    @property
    def node_of_cpu(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes) for _ in range(node.cpus)]

    @property
    def with_memory(self) -> list[int]:
        """The nodes whose memory the kernel has."""
        return [n for n, node in enumerate(self.nodes) if node.memory_mib and not node.absent]

    @property
    def online(self) -> list[int]:
        return [n for n, node in enumerate(self.nodes) if not node.absent]

    @property
    def memory_mib(self) -> int:
        return sum(node.memory_mib for node in self.nodes)

    def allowed(self, nodes: Collection[int] = ()) -> list[int]:
        """The nodes in `nodes` that have memory; all with memory, if `nodes` is empty."""
        return [node for node in self.with_memory if not nodes or node in nodes]

    def distance(self, one: int, other: int) -> int:
        if self.keys.distances:
            return self.keys.distances[one][other]
        return _NEAR if one == other else _FAR

    def home(self, cpu: int, allowed: Collection[int] = ()) -> int:
        """The node of the allowed ones (default: all) whose memory a thread on `cpu` should get:
        its own, else the nearest."""
        own = self.node_of_cpu[cpu]
        usable = self.allowed(allowed)
        return min(usable, key=lambda node: (node != own, self.distance(own, node), node))

    def homes(self, allowed: Collection[int] = ()) -> str:
        """`CPU:NODE,...`, in the form that the audit takes."""
        cpus = range(len(self.node_of_cpu))
        return ",".join(f"{cpu}:{self.home(cpu, allowed)}" for cpu in cpus)

    def qemu(self) -> list[str]:
        """The words of QEMU's command line. Each processor is a socket: if two of different nodes
        were in one, they would have a common cache."""
        cpus = len(self.node_of_cpu)
        words = ["-smp", f"cpus={cpus},sockets={cpus},cores=1,threads=1"]
        words += ["-m", f"{self.memory_mib}M"]
        for number in range(len(self.nodes)):
            words += self._node(number)
        for one, row in enumerate(self.keys.distances):
            for other, value in enumerate(row):
                words += ["-numa", f"dist,src={one},dst={other},val={value}"]
        return words

    def _node(self, number: int) -> list[str]:
        node = self.nodes[number]
        text = f"node,nodeid={number}"
        words = []
        if node.memory_mib:
            words += ["-object", f"memory-backend-ram,id=node{number},size={node.memory_mib}M"]
            text += f",memdev=node{number}"
        for cpu, owner in enumerate(self.node_of_cpu):
            text += f",cpus={cpu}" if owner == number else ""
        return [*words, "-numa", text]

    def kernel(self) -> list[str]:
        """The words of the kernel's command line: the memory that it must not use."""
        words = []
        start = 0
        for node in self.nodes:
            if node.absent:
                words.append(f"memmap={node.memory_mib * _MIB:#x}${start:#x}")
            start += node.memory_mib * _MIB
        return words


def names() -> list[str]:
    return files.names(folders.topologies())


def load(name: str) -> Topology:
    """The topology of that name in vm/topologies, or of that file."""
    return parse(*files.find(folders.topologies(), "topology", name, TopologyError))


def parse(text: str, name: str) -> Topology:
    """`name` is the name that errors give."""
    return Topology(name, files.parse(text, name, _Keys, _problems, TopologyError))


def _problems(keys: _Keys) -> Iterator[str]:
    nodes = keys.node
    if not nodes[0].cpus:
        yield "node[0].cpus: the first node must have a processor"
    if not any(node.memory_mib and not node.absent for node in nodes):
        yield "node: none has memory"
    if nodes[-1].absent:
        yield f"node[{len(nodes) - 1}].absent: the last node cannot be a hole"
    for number, node in enumerate(nodes):
        where = f"node[{number}]"
        if not node.cpus and not node.memory_mib:
            yield f"{where}: neither processors nor memory"
        if node.cpus and number and not nodes[number - 1].cpus:
            yield f"{where}.cpus: nodes without processors must be the last: the kernel's order"
        if 0 < node.memory_mib < _LEAST_MIB:
            yield f"{where}.memory_mib: at least {_LEAST_MIB}"
        if node.absent and node.cpus:
            yield f"{where}.absent: a node with processors is there"
    if sum(node.memory_mib for node in nodes) > _MOST_MIB:
        yield f"node: more than {_MOST_MIB} MiB in all"
    yield from _distance_problems(keys.distances, len(nodes))


def _distance_problems(rows: list[list[int]], count: int) -> Iterator[str]:
    if rows and (len(rows) != count or any(len(row) != count for row in rows)):
        yield f"distances: {count} rows of {count} numbers are needed"
        return
    for one, row in enumerate(rows):
        for other, value in enumerate(row):
            if (value == _NEAR) != (one == other):
                yield f"distances[{one}][{other}]: a node is {_NEAR} from itself alone"
