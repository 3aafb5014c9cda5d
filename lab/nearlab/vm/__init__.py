"""The NUMA machine: a Linux guest with several nodes under QEMU, one JSON verdict a case.

What it shows is where memory lies and how often it is accessed; it never yields a time.
"""
