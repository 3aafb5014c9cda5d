"""The driver of the simulated machine: machines, subjects, runs, reports."""
