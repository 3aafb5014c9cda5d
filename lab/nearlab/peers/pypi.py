"""The allocator that the Python index packages. Invariant: installs into a venv or not at all."""

import importlib.metadata
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from nearlab.peers import installing


@dataclass(frozen=True, slots=True)
class PythonPackage:
    file: str  # below the site-packages folder
    package: str
    versions: str

    def find(self) -> Path | None:
        folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        candidates = [Path(folder) / self.file for folder in sorted(folders)]
        return next((path for path in candidates if path.exists()), None)

    def flags(self) -> str:
        try:
            return f"{self.package} {importlib.metadata.version(self.package)}"
        except importlib.metadata.PackageNotFoundError:
            return self.package

    def hint(self) -> str:
        return f"not found: pip install '{self.package}{self.versions}' in this environment"

    def install(self) -> None:
        if self.find() is None and sys.prefix != sys.base_prefix:
            pip = [sys.executable, "-m", "pip", "install", "-q"]
            installing.attempt([*pip, f"{self.package}{self.versions}"])
