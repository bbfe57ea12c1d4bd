"""Targets with a fault planted in them: what the fuzz driver must find."""

from collections.abc import Callable
from pathlib import Path


def traceback(folder: Path) -> Callable[[bytes], None]:
    def one(data: bytes) -> None:
        if len(data) > 3:
            raise KeyError("planted")

    return one


def hang(folder: Path) -> Callable[[bytes], None]:
    def one(data: bytes) -> None:
        while len(data) > 3:
            pass

    return one


def sound(folder: Path) -> Callable[[bytes], None]:
    return lambda data: None
