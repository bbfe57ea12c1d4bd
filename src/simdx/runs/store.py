"""Where records and the arrays behind them lie: whole files, sealed, found again by content.

    FOLDER/cells/NAME.json           records
    FOLDER/earlier/NAME.json         a result whose inputs are away for now
    FOLDER/.parts/IDENTITY/…         answers, chunk by chunk: a killed run goes on where it stopped

A failure never takes the place of a result: the result is set aside, and comes back when the inputs are again
those it was made from. Only numbers are stored in chunks, never a text.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from simdx.disk import cannot_write, load_arrays, make_folder, save_arrays, write_atomically
from simdx.runs.record import Record
from simdx.types import Float

T = TypeVar("T")

Arrays = dict[str, Float]
Progress = Callable[[int, int], None]

PARTS, EARLIER = ".parts", "earlier"
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results; without a folder nothing is kept."""

    folder: Path | None
    place: str = "cells"

    def path(self, name: str, place: str | None = None) -> Path | None:
        return None if self.folder is None else self.folder / (place or self.place) / f"{name}.json"

    def read(self, name: str, place: str | None = None) -> Record | None:
        """The record, or None if it is missing, unreadable or changed."""
        path = self.path(name, place)
        try:
            return None if path is None else Record.from_json(json.loads(path.read_bytes()), name)
        except (OSError, ValueError, RecursionError):
            return None

    def records(self) -> list[Record]:
        """Every record that can be read, by name."""
        paths = [] if self.folder is None else sorted((self.folder / self.place).glob("*.json"))
        return [record for path in paths if (record := self.read(path.stem)) is not None]

    def damaged(self, name: str) -> bool:
        path = self.path(name)
        return path is not None and path.is_file() and self.read(name) is None

    def holds(self, name: str, identity: str) -> bool:
        return self._where(name, identity) is not None

    def standing(self, name: str, identity: str) -> Record | None:
        """The result made from exactly these inputs, restored if it was set aside."""
        if (place := self._where(name, identity)) == EARLIER:
            self._move(name, EARLIER, self.place)
        return None if place is None else self.read(name)

    def write(self, record: Record) -> None:
        path = self.path(record.name)
        if path is None:
            return
        make_folder(path.parent)
        if not record.done and (known := self.read(record.name)) is not None and known.done:
            self._move(record.name, self.place, EARLIER)
        write_atomically(path, record.dumps())

    def _where(self, name: str, identity: str) -> str | None:
        for place in (self.place, EARLIER):
            record = self.read(name, place)
            if record is not None and record.status != "failed" and record.identity == identity:
                return place
        return None

    def _move(self, name: str, source: str, target: str) -> None:
        before, after = self.path(name, source), self.path(name, target)
        assert before is not None
        assert after is not None
        make_folder(after.parent)
        try:
            os.replace(before, after)
        except OSError as error:
            raise cannot_write(after, error) from None

    def answers(
        self, key: str, cases: Sequence[T], compute: Callable[[Sequence[T]], Arrays], *,
        resume: bool = True, size: int = CHUNK, progress: Progress | None = None,
    ) -> Arrays:  # fmt: skip
        """`compute` over all cases, `size` at a time; whole chunks found under `key` are not made again.

        The key is an `identity`, so a chunk can never be mistaken for another run's.
        """
        folder = None if self.folder is None else self.folder / PARTS / key
        if folder is not None:
            make_folder(folder)
        found: list[Arrays] = []
        for start in range(0, len(cases), size):
            part = cases[start : start + size]
            path = None if folder is None else folder / f"{start:09d}.safetensors"
            arrays = load_arrays(path) if path is not None and resume else None
            # An absent or damaged chunk, or one of another length, is computed again.
            if not arrays or any(len(a) != len(part) for a in arrays.values()):
                arrays = compute(part)
                if path is not None:
                    save_arrays(path, arrays)
            found.append(arrays)
            if progress is not None:
                progress(start + len(part), len(cases))
        return {name: np.concatenate([a[name] for a in found]) for name in (found[0] if found else {})}

    def forget_answers(self, keep: set[str]) -> None:
        """Remove the chunks of finished or abandoned runs with another identity."""
        parent = None if self.folder is None else self.folder / PARTS
        if parent is not None and parent.is_dir():
            for folder in parent.iterdir():
                if folder.is_dir() and folder.name not in keep:
                    shutil.rmtree(folder)
