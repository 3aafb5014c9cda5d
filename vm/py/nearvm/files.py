"""The files that describe a machine or a case: found by name, read, validated by a model.

Invariant: any fault is an error of one line, of the type that the caller passes.
"""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

_Keys = TypeVar("_Keys", bound=BaseModel)


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml"))


def names(folder: Path) -> list[str]:
    return [path.stem for path in _paths(folder)]


def find(folder: Path, kind: str, name: str, error: type[Exception]) -> tuple[str, str]:
    """Text and name of the file with that name in the folder, or of the .toml file `name`."""
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        raise error(f"there is no {kind} {name!r}; there are: {', '.join(names(folder))}")
    try:
        return path.read_text(encoding="utf-8"), path.stem
    except (OSError, UnicodeDecodeError) as reason:
        raise error(f"{path}: cannot be read: {reason}") from None


def parse(
    text: str,
    name: str,
    model: type[_Keys],
    problems: Callable[[_Keys], Iterator[str]],
    error: type[Exception],
) -> _Keys:
    """`problems` yields what the model does not detect; `name` is the name that errors give."""
    try:
        keys = model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as reason:
        raise error(f"{name}: not TOML: {reason}") from None
    except ValidationError as reason:
        raise error(f"{name}: {_first(reason)}") from None
    for problem in problems(keys):
        raise error(f"{name}: {problem}")
    return keys


def _first(error: ValidationError) -> str:
    """The first fault that a model found, as `key: what`."""
    first = error.errors()[0]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    what = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
    return f"{key.removeprefix('.')}: {what[0].lower()}{what[1:]}"
