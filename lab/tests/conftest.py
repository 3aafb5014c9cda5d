"""Prints how many cases ran, for whoever counts; with none, pytest itself fails (exit status 5).

Hypothesis tries the same examples every time and keeps its files in build.
"""

import os

import hypothesis
import pytest

from nearlab import peers, places

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(places.RESULTS / "hypothesis"))
hypothesis.settings.register_profile("lab", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("lab")


def pytest_terminal_summary(terminalreporter):
    ran = [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]
    terminalreporter.write_line(f"cases: {len(ran)}")
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.write_line(f"skipped: {len(skipped)}")
    for reason in {report.longrepr[2] for report in skipped}:
        terminalreporter.write_line(reason)


@pytest.fixture(scope="session")
def found():
    """The allocators by name, as they are on this machine; nothing is installed by a test."""
    return {allocator.name: allocator for allocator in peers.find_all()}
