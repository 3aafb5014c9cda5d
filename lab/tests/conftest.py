"""What all tests of the lab share: the count of cases, and the allocators of this machine.

Hypothesis tries the same examples every time and keeps its files in build.
"""

import os

import hypothesis
import pytest

from case_count import pytest_terminal_summary as pytest_terminal_summary
from nearlab import peers, places

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(places.RESULTS / "hypothesis"))
hypothesis.settings.register_profile("lab", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("lab")


@pytest.fixture(scope="session")
def found():
    """The allocators of this machine by name; a test installs none."""
    return {allocator.name: allocator for allocator in peers.find_all()}
