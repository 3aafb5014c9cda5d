"""Tests of processes that the profiler watches.

Thread-safety: one thread.
"""

import shutil
import tempfile
from pathlib import Path

from preload import PreloadTest

INTERVAL = 4096


class ProfiledTest(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def options(self, form: str, name: str = "profile") -> dict[str, str]:
        """Those by which a process writes its profile into the folder."""
        return {"NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_FORMAT": form,
                "NEARMALLOC_PROFILE_INTERVAL": str(INTERVAL),
                "NEARMALLOC_PROFILE_FILE": str(self.folder / name)}
