"""Timelines: their file, their numbers, the figure, the trace, the cost of recording."""
