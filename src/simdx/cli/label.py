"""Labelling in the terminal: a text, one key, the next text. `panel calibrate --ask` uses it."""

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from simdx.cli.output import note
from simdx.errors import BadInput
from simdx.types import NONE_OF_THESE

KEYS = "123456789abcdefghijklmnoprtvwxyz"  # without those below
NONE, SKIP, UNDO, STOP = "0", "s", "u", "q"
LONGEST = 4_000  # characters of a text that are shown


def ask_labels(
    names: Sequence[str],
    texts: Sequence[str],
    labelled: Mapping[str, str],
    save: Callable[[Mapping[str, str]], None],
) -> dict[str, str]:
    """text -> label, those there were before included; `save` is told after every key."""
    if len(names) > len(KEYS):
        raise BadInput(
            f"{len(names)} labels are more than there are keys ({len(KEYS)}): label a file, give --data"
        )
    meaning = {**dict(zip(KEYS, names, strict=False)), NONE: NONE_OF_THESE}
    given, place, order = dict(labelled), 0, list[str]()
    left = [text for text in texts if text not in given]
    total = len(given) + len(left)
    with _keys() as next_key:
        while place < len(left):
            note(f"\n--- {len(given) + 1} of {total} ---")
            note(textwrap.fill(" ".join(left[place].split())[:LONGEST], 100))
            note("  " + "   ".join(f"{key} {name}" for key, name in meaning.items()))
            print(f"  {SKIP} skip   {UNDO} undo   {STOP} stop: ", end="", file=sys.stderr, flush=True)
            key = next_key()
            if key == STOP:
                note(STOP)
                break
            if key in meaning:
                note(meaning[key])
                given[left[place]] = meaning[key]
                order.append(left[place])
                place += 1
            elif key == SKIP:
                note("skipped")
                order.append("")
                place += 1
            elif key == UNDO and order:
                note("undone")
                given.pop(order.pop(), None)
                place -= 1
            else:
                note("nothing to undo" if key == UNDO else "no such key")
                continue
            save(given)
    return given


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """What reads one key; a line where nobody sits at a terminal. The end of input stops."""
    if not sys.stdin.isatty():
        yield lambda: (sys.stdin.readline().strip().lower() or STOP)[:1]
        return
    import termios
    import tty

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle)
        yield lambda: (sys.stdin.read(1).lower() or STOP).replace("\x04", STOP)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
