"""`nearmalloc top`: where the memory of a running process is, read from outside."""
