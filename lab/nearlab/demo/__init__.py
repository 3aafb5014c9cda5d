"""The demo: memory after a peak and real programs under glibc's malloc and under nearmalloc.

Invariant: without --long it needs only typer and rich, and every other module only Python itself.
"""
