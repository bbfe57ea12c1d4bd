"""What a language model said, kept on disk so that an interrupted run goes on where it stopped.

An append-only JSONL file, one line per reply: the content hash of the question, the reading as numbers or
the reason why there is none, and what it cost. Neither a prompt nor the words of a reply are written: a
reply may repeat the case. A request that failed in transport is not kept, so it is asked again.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from simdx.disk import make_folder, seal_holds, sealed
from simdx.errors import RunFailed


@dataclass(frozen=True, slots=True)
class Reply:
    """One reading: `scores` per label, or None with the reason in `failure`."""

    scores: tuple[float, ...] | None
    failure: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


class ReplyStore:
    """Replies by the hash of what was asked. Without a path they live in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Reply] = {}
        self._torn = False
        if path is not None:
            make_folder(path.parent)
            try:
                self._known = _read(path)
            except OSError as error:
                raise RunFailed(f"replies cannot be read from '{path}': {error.strerror}") from None

    def get(self, key: str) -> Reply | None:
        return self._known.get(key)

    def keep(self, key: str, reply: Reply) -> None:
        with self._lock:
            self._known[key] = reply
            if self._path is None:
                return
            line = json.dumps(sealed({"key": key, **asdict(reply)}), allow_nan=False) + "\n"
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write("\n" + line if self._torn else line)
                self._torn = False
            except OSError as error:
                self._torn = True  # half a line may be there: the next one starts on its own
                raise RunFailed(
                    f"replies cannot be written to '{self._path}': {error.strerror}; those in it are kept"
                ) from None


def _read(path: Path) -> dict[str, Reply]:
    """Every whole line. A kill can leave half a line; what follows it must start on its own line."""
    if not path.is_file():
        return {}
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    known: dict[str, Reply] = {}
    for line in data.splitlines():
        try:
            row = json.loads(line)
            if "seal" in row and not seal_holds(row):
                continue  # damaged: it is asked again
            scores = None if row["scores"] is None else tuple(float(s) for s in row["scores"])
            tokens = int(row["prompt_tokens"]), int(row["completion_tokens"])
            known[str(row["key"])] = Reply(scores, row["failure"], *tokens, float(row["seconds"]))
        except (ValueError, KeyError, TypeError):
            continue
    return known
