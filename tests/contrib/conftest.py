"""The command line in this process, as tests/cli has it."""

from tests.cli.conftest import cli

__all__ = ["cli"]
