"""A language model asked about cases of a panel with more labels than letters.

    python -m benchmarks.ask_numbers --simulator hf:qwen2.5-coder-1.5b

Asking by option letters ends at 26 labels, so options have two-digit numbers here: the probability of a
number is that of its first digit times that of its second, given the first. The list is rotated so that a
preference for a place evens out, and comes after the case: before it, the model was right half as often. It
can be killed and run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from simdx.baselines.asking import TOP, rotations
from simdx.panels import load_panel
from simdx.simulators import get_simulator
from simdx.simulators.base import Completion, Request, Simulator
from simdx.types import Float

PANEL = Path("benchmarks/data/ddxplus41/panel.yaml")
DATA = Path("../shared/data/transfer/ddxplus41/cases.jsonl")
ASKED = Path("results/transfer/ddxplus41-asked.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=ASKED)
    parser.add_argument("--simulator", default="qwen2.5-coder-1.5b")
    parser.add_argument("--rotations", type=int, default=8)
    parser.add_argument("--cases", type=int, help="ask about so many, spread evenly over the labels")
    ask(parser.parse_args(), load_panel(PANEL).names)


def ask(asked: argparse.Namespace, names: tuple[str, ...]) -> None:
    simulator, done, turn = get_simulator(asked.simulator), read_asked(asked.out), dict.fromkeys(names, 0)
    cases = []
    for case in map(json.loads, asked.data.read_text(encoding="utf-8").splitlines()):
        cases.append((turn[case["label"]], case["id"], case["text"]))
        turn[case["label"]] += 1
    cases = sorted(cases, key=lambda c: c[0])[: asked.cases]
    todo = [(key, text) for _, key, text in cases if key not in done]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    batch = max(1, simulator.concurrency // 6)
    with asked.out.open("a", encoding="utf-8") as out:
        for start in range(0, len(todo), batch):
            some, began = todo[start : start + batch], time.monotonic()
            found = numbered(simulator, [text for _, text in some], names, asked.rotations)
            seconds = round((time.monotonic() - began) / len(some), 4)
            said = {"seconds": seconds, "by": simulator.id, "rotations": asked.rotations}
            for (key, _), p in zip(some, found, strict=True):
                out.write(json.dumps({"id": key, "p": p.round(6).tolist(), **said}) + "\n")
            out.flush()
    simulator.close()


def numbered(simulator: Simulator, texts: list[str], names: tuple[str, ...], most: int) -> Float:
    """(N, K) probabilities of the options' numbers, averaged over rotations of the list."""
    firsts = sorted({f"{i + 1:02}"[0] for i in range(len(names))})
    shifts = rotations(len(names), most)
    requests = [
        Request(question(text, names[s:] + names[:s]), opening=opening, temperature=0.0, top_p=1.0,
                max_tokens=1, seed=0, logprobs=TOP)
        for text in texts for s in shifts for opening in ("", *firsts)
    ]  # fmt: skip
    answers = dict(simulator.complete(iter(requests)))
    each = 1 + len(firsts)
    out = np.zeros((len(texts), len(names)))
    for block in range(len(texts) * len(shifts)):
        digit = [digits(answers[block * each + i]) for i in range(each)]
        first = digit[0][[int(d) for d in firsts]]
        by_place = np.zeros(len(names))
        for j, d in enumerate(firsts):
            here = [i for i in range(len(names)) if f"{i + 1:02}"[0] == d]
            second = digit[1 + j][[(i + 1) % 10 for i in here]]
            by_place[here] = first[j] / first.sum() * second / second.sum()
        out[block // len(shifts)] += np.roll(by_place, shifts[block % len(shifts)]) / len(shifts)
    return out


def question(text: str, options: tuple[str, ...]) -> str:
    listed = "".join(f"{i + 1:02}. {option}\n" for i, option in enumerate(options))
    return (
        f"Case description:\n{text.strip()}\n\nPossible diagnoses:\n{listed}\n"
        "Which of the diagnoses above fits this case best? Reply with its two-digit number only."
    )


def digits(completion: Completion) -> Float:
    """Probabilities of 0 … 9 as next token; one that is not listed gets that of the last listed."""
    if completion.error is not None or not completion.logprobs:
        raise SystemExit(f"asking failed: {completion.error or 'no log-probabilities'}")
    top = completion.logprobs[0].top
    floor = math.exp(min(logprob for _, logprob in top))
    mass = np.zeros(10)
    for token, logprob in top:
        if token.strip() in tuple("0123456789"):
            mass[int(token.strip())] += math.exp(logprob)
    return np.where(mass > 0, mass, floor)


def read_asked(path: Path) -> dict[str, Any]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {row["id"]: row for row in map(json.loads, lines)}


if __name__ == "__main__":
    main()
