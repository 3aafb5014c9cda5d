"""The demo: real programs under the system's malloc and under nearmalloc, side by side."""
