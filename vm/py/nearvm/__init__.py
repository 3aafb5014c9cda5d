"""The NUMA machine: a Linux guest with several nodes under QEMU, one JSON verdict for each case.

It shows where memory lies and how often it is accessed; it never yields a time.
"""
