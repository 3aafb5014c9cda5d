"""What users of nearmalloc run beside their programs: top, core, profile, leaks, exporter."""
