"""Speed, measured: one file per bench, each with `run() -> dict`."""
