"""What users of nearmalloc run beside their programs: top, core, profile, leaks, exporter."""

__version__ = "0.2.0"  # that of nearmalloc.h
