"""The demo: memory after a peak and real programs under glibc's malloc and under nearmalloc.

Invariant: without --long the demo needs two packages, typer and rich; `names` needs none.
"""
