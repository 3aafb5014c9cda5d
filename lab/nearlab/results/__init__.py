"""Results on disk, their statistics, and their summary."""
