"""Plans: which cells run, read from lab/plans/*.toml."""
