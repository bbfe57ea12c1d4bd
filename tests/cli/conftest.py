"""Run the command line in this process: same entry point, same exit codes, no start-up cost."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from simdx.cli.main import run


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line of an exit-2 answer; anything else fails the test."""
        assert self.code == 2, (self.code, self.err, self.out)
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    def call(*args: object) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([str(a) for a in args])
        out, err = capfd.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, out, err)

    return call
