"""Sweeps: results whose cells are points of curves, judged beside the best peer of each."""
