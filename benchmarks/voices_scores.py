"""What a model says of cases and of simulated texts: the inputs of `benchmarks.voices`.

    python -m benchmarks.voices_scores --panel PANEL --cases F --bank OWN.jsonl [--ood G] [--background B]
        [--simulator hf:qwen2.5-coder-1.5b] [--fresh N]

Three voices on every case, and two of them on sixty texts of the model's own bank, as the product has them.
`--fresh N` also draws N texts of each label from the scoring prompts at temperature 1 and scores the first
200. A GPU machine without the package ran the same computation in one file that needs torch and transformers
alone; its windows were 400 tokens where the product's are 300 words.
"""

import argparse
import gzip
import json
import random
from pathlib import Path

import numpy as np

from benchmarks.voices import SCORES
from simdx.baselines.asking import ask_logits
from simdx.baselines.interview import Asking
from simdx.classifier import Classifier
from simdx.methods.fitted import Settings
from simdx.simulators import get_simulator
from simdx.simulators.base import Request, ask_all
from simdx.simulators.scoring import scored, scorer_of
from simdx.types import Bank
from simdx.voices.likelihood import windows
from simdx.voices.prompts import scoring_prompts

PER_LABEL = 60
SCORED_FRESH = 200
FRESH_TOKENS = 170


def rows(path: Path | None) -> list[dict[str, str]]:
    return (
        [] if path is None else [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    )


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--panel", required=True)
    for name in ("--cases", "--bank", "--ood", "--background"):
        parse.add_argument(name, type=Path, required=name in ("--cases", "--bank"))
    parse.add_argument("--simulator", default="hf:qwen2.5-coder-1.5b")
    parse.add_argument("--fresh", type=int, default=0)
    asked = parse.parse_args()
    simulator = get_simulator(asked.simulator)
    scorer = scorer_of(simulator)
    texts = rows(asked.bank)
    written = Classifier(asked.panel).panel
    index = np.array([written.names.index(r["label"]) for r in texts])
    background = tuple(r["text"] for r in rows(asked.background))
    bank = Bank(written.name, written.names, tuple(r["text"] for r in texts), index, background, name="own")
    door = Classifier(written, bank)
    prompts = scoring_prompts(written)
    questions = ask_logits(
        written.names, Settings(method="logits"), simulator.capabilities, clinical=written.is_clinical
    )
    asking = Asking(door.material, Settings(method="logits"), simulator, questions)
    SCORES.mkdir(parents=True, exist_ok=True)
    parts = {"cases": rows(asked.cases), "ood": rows(asked.ood), "own": _some(texts, written.names)}
    simulated: dict[str, np.ndarray] = {}
    for part, cases in parts.items():
        if not cases:
            continue
        cut = [(i, w) for i, r in enumerate(cases) for w in windows(r["text"])]
        found = scored(scorer, prompts.all, [w for _, w in cut])
        kept = {"scores": found.logprob, "tokens": found.tokens, "owner": np.array([i for i, _ in cut])}
        if part == "own":
            kept["label"] = np.array([written.names.index(r["label"]) for r in cases])
        np.savez_compressed(SCORES / f"{written.name}.{part}.npz", **kept)
        seen = door.observe([r["text"] for r in cases])
        replies = asking.ask(seen).replies
        letters = np.log([[r.scores for r in case] for case in replies])
        np.savez_compressed(SCORES / f"{written.name}.{part}.ask.npz", letters=letters)
        if part != "own":
            table = door.infer_batch_observed(seen)
            simulated[part] = table.posterior_in_class
            if table.out_of_class is not None:
                simulated[f"{part}_none"] = table.out_of_class
    simulated["y"] = np.array([written.names.index(r["label"]) for r in parts["cases"]])
    np.savez_compressed(SCORES / f"{written.name}.simulate_own.npz", **simulated)
    if asked.fresh:
        drawn = [(k, i) for k in range(len(written.names)) for i in range(asked.fresh)]
        requests = [
            Request(prompts.of_labels[k][i % 3], temperature=1.0, top_p=1.0, max_tokens=FRESH_TOKENS, seed=i)
            for k, i in drawn
        ]
        answers = ask_all(simulator, requests)
        with gzip.open(SCORES / f"{written.name}.fresh.jsonl.gz", "wt") as file:
            for (k, i), answer in zip(drawn, answers, strict=True):
                file.write(json.dumps({"label": k, "prompt": i % 3, "text": answer.text}) + "\n")
        held = [(k, a.text) for (k, i), a in zip(drawn, answers, strict=True) if i < SCORED_FRESH]
        found = scored(scorer, prompts.all, [text for _, text in held])
        kept = {"scores": found.logprob, "tokens": found.tokens, "label": np.array([k for k, _ in held])}
        np.savez_compressed(SCORES / f"{written.name}.fresh.npz", **kept)


def _some(texts: list[dict[str, str]], names: tuple[str, ...]) -> list[dict[str, str]]:
    shuffled = random.Random(0).sample(texts, len(texts))
    return [r for name in names for r in [t for t in shuffled if t["label"] == name][:PER_LABEL]]


if __name__ == "__main__":
    main()
