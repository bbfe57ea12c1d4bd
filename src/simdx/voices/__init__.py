"""One model heard as a density, and three ways together: `--method likelihood`, `--method voices`."""
