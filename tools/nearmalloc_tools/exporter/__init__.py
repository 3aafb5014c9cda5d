"""`nearmalloc exporter`: metrics of processes under nearmalloc, read from outside."""
