"""`python -m simdx` is `simdx`."""

from simdx.cli.main import run

run()
