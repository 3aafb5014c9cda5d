"""`./near exporter`: metrics of processes under nearmalloc, read from outside."""
