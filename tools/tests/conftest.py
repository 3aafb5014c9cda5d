"""What the tests of the tools share: the count of cases."""

from case_count import pytest_terminal_summary as pytest_terminal_summary
