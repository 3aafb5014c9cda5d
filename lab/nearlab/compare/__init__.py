"""Compares two sets of results: what got faster, slower, larger or smaller."""
