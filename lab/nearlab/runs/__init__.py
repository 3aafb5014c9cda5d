"""Runs: a plan's cells in interleaved rounds, each judged, into a journal."""
