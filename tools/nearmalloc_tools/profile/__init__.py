"""Runs a program under the sampling profiler, and shows its profile on a page (docs/profile.md)."""
