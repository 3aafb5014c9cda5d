"""`nearmalloc leaks`: which sampled blocks nothing points to when a program ends."""
