"""The workloads that run simulated, from manycore/workloads.toml: programs of the lab with
arguments for a number of threads, smaller than on real processors: each access is an event."""

import tomllib
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmanycore import places


class WorkloadError(ValueError):
    """A workload that cannot run, in one line."""


class Workload(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    description: str
    program: str
    operations: Annotated[int, Field(ge=1)]  # of a thread
    arguments: list[str]  # {threads}, {pairs}, {operations} and {total} are replaced
    least: Annotated[int, Field(ge=1)] = 1  # threads

    def command(self, threads: int, scale: float, more: Sequence[str]) -> list[str]:
        own = max(1, round(self.operations * scale))
        values = {
            "threads": threads,
            "pairs": max(1, threads // 2),
            "operations": own,
            "total": own * threads,
        }
        return [argument.format(**values) for argument in self.arguments] + list(more)


def all_of_them() -> dict[str, Workload]:
    table = tomllib.loads(places.WORKLOADS.read_text(encoding="utf-8"))
    try:
        return {name: Workload.model_validate(keys) for name, keys in table.items()}
    except ValidationError as error:
        raise WorkloadError(f"{places.WORKLOADS.name}: {error.errors()[0]['loc']}") from None


def load(name: str) -> Workload:
    known = all_of_them()
    if name not in known:
        raise WorkloadError(f"there is no workload {name}; there are: {' '.join(known)}")
    return known[name]
