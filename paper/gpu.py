"""The plan's banks and questions (paper/PLAN.md) on a machine with a GPU, in the files that the artefacts read.

    python -m paper.gpu --out grid --minutes 60          # goes on where it stopped; a bank or a file once done stays
    SIMDX_BANKS=grid/banks SIMDX_ASKING=grid/asking python -m paper run --out grid/records --embedder wordllama+mpnet
    SIMDX_BANKS=grid/banks-facets SIMDX_ASKING=grid/asking python -m paper run --out grid/records-facets …

Weights come by `simdx models pull MODEL`, or from the folder in $SIMDX_CACHE where there is no network.
"""

import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from paper import world
from simdx.bank.files import MANIFEST_FILE, write_bank
from simdx.bank.plan import BankPlan, BuildSettings, voice_for
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.disk import write_atomically
from simdx.simulators import get_simulator
from simdx.simulators.base import Request, Simulator
from simdx.types import Bank, Panel

MODELS = ("qwen2.5-coder-1.5b", "smollm2")
PANELS = ("case-reports", "symptom-to-diagnosis", "oral-lesions")  # label names limit the first one's yield
# Folder of the banks: temperature, facets. The paper's setting keeps near-duplicates, as the paper does.
SETTINGS = {"banks": (0.2, False), "banks-facets": (0.8, True)}
DRAWS, WANTED, MOST_ASKED = 3, 500, 20_000  # banks of a setting; usable texts and requests of a label
BATCH = 1024
COLD = 0.2  # temperature of all that is asked
SAMPLES, GUESSES = 10, 3

# --------------------------------------------------------------------------- banks


def write_texts(panel: Panel, simulator: Simulator, settings: BuildSettings, late: Callable[[], bool]) -> Bank:
    """The first usable texts of every label; whatever names a label is dropped and counted, none is kept."""
    plan = BankPlan(panel, simulator.id, settings)
    scrub = {name: Scrubber.for_topic(panel, name) for name in panel.names}
    copies = {name: Duplicates() for name in panel.names}
    kept: dict[str, list[str]] = {name: [] for name in panel.names}
    asked, rejected = Counter[str](), Counter[str]()
    while not late():
        short = [n for n in panel.names if len(kept[n]) < settings.per_label and asked[n] < MOST_ASKED]
        if not short:
            break
        turn = [short[i % len(short)] for i in range(simulator.concurrency)]
        planned = []
        for name in turn:
            planned.append(plan.planned(name, asked[name]).request)
            asked[name] += 1
        for place, answer in simulator.complete(planned):
            name, text = turn[place], tidy(answer.text, answer.finish_reason)
            reason = answer.error or scrub[name].reason(text)
            if reason is None and settings.facets and copies[name].seen(text):
                reason = "near-duplicate"
            if reason is None:
                kept[name].append(text)
            else:
                rejected[reason] += 1
    texts = [(i, text) for i, name in enumerate(panel.names) for text in kept[name][: settings.per_label]]
    index = np.array([i for i, _ in texts], dtype=np.int64)
    return Bank(panel.name, panel.names, tuple(text for _, text in texts), index, rejected=dict(rejected))


def write_banks(out: Path, model: str, simulator: Simulator, late: Callable[[], bool], wanted: int) -> None:
    """Every draw of every panel and setting that is not there yet; a bank cut short by the time is not written."""
    for draw in range(DRAWS):
        for folder, (temperature, facets) in SETTINGS.items():
            for name in PANELS:
                panel = world.load_source(name).panel
                place = out / folder / (f"{name}-{model}" + (f"-s{draw}" if draw else ""))
                if (place / MANIFEST_FILE).is_file():
                    continue
                settings = BuildSettings(per_label=wanted, temperature=temperature, facets=facets, seed=draw,
                                         voice=voice_for(model))  # fmt: skip
                bank = write_texts(panel, simulator, settings, late)
                if late():
                    return
                write_bank(place, bank, panel, {"simulator": simulator.id, "temperature": temperature, "seed": draw})
                print(f"{place}: {bank.counts}, rejected {dict(bank.rejected)}", file=sys.stderr)


# --------------------------------------------------------------------------- questions, of the paper's structure

CHOOSE = ("Choose only the most likely diagnosis of the patient described below from these options:", "Patient:",
          "Diagnosis (the number of the option and NO OTHER TEXT):")  # fmt: skip
ENSEMBLE = (
    ("Choose the one diagnosis that is likeliest for the patient below. Give the number ONLY.", "Patient:", "Number:"),
    ("Take the best match from the list. Reply with a number and nothing else.", "Case:", "Reply:"),
    ("Which diagnosis is most probable here? Write its number, no further text.", "Case description:", "Choice:"),
    ("You are a clinical classifier. Return the index of the right diagnosis ONLY.", "Patient:", "Index:"),
    ("Assign the right label to this patient. Write one digit.", "Patient description:", "Label:"),
    ("Name the likeliest diagnosis by its number ONLY.", "Description:", "Diagnosis:"),
    ("Pick one diagnosis for this case. Return the number and nothing more.", "Case details:", "Number:"),
    ("Classify this case under one label; your answer must be its digit.", "Text:", "Answer:"),
)


def question(words: tuple[str, str, str], options: Sequence[str], text: str) -> str:
    listed = "\n".join(f"{i}. {option}" for i, option in enumerate(options, start=1))
    return f"{words[0]}\n{listed}\n{words[1]} {text.strip()}\n{words[2]}"


def elicitation(options: Sequence[str], text: str) -> str:
    guesses = min(GUESSES, len(options))
    listed = ", ".join(f"{i}. {option}" for i, option in enumerate(options, start=1))
    form = "\n".join(f"G{i}: number, P{i}: percent" for i in range(1, guesses + 1))
    return (
        f"Give your {guesses} best guesses and for each the probability that it is right (0% to 100%). Write ONLY "
        f"the number of each guess and its probability, no other words, in this form:\n{form}\n"
        f"Question: which diagnosis does the patient described below have?\nChoices: {listed}\n"
        f"Patient: {text.strip()}\nAnswer:"
    )


def questions(options: Sequence[str], text: str) -> dict[str, list[Request]]:
    def cold(prompt: str, tokens: int, seed: int, **more: Any) -> Request:
        return Request(prompt, temperature=COLD, top_p=1.0, max_tokens=tokens, seed=seed, **more)

    plain = question(CHOOSE, options, text)
    return {
        "letters": [Request(plain, temperature=0.0, max_tokens=1, logprobs=20)],
        "elicited-t0.2": [cold(elicitation(options, text), 48, 0, opening="G1:")],
        "ensemble-t0.2": [cold(question(words, options, text), 4, i) for i, words in enumerate(ENSEMBLE)],
        "fidelity-t0.2": [cold(plain, 4, i) for i in range(SAMPLES)],
    }


def ask(out: Path, model: str, simulator: Simulator, late: Callable[[], bool], data: Path | None) -> None:
    """All cases of a panel, inside and outside it, in the paper's four ways: replies word for word."""
    for name in PANELS:
        cases = world.read_panel(name, None, None, data)
        every = [*cases.dataset.cases, *(cases.outside.cases if cases.outside else ())]
        for way in questions(cases.names, ""):
            place = out / "asking" / f"replies-{model}" / f"{way}-{name}.jsonl.gz"
            if place.is_file() or late():
                continue
            asked = [(case.id, request) for case in every for request in questions(cases.names, case.text)[way]]
            answers = dict(simulator.complete(request for _, request in asked))
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, gzip.compress("".join(_lines(asked, answers)).encode(), mtime=0))


def _lines(asked: Sequence[tuple[str, Request]], answers: dict[int, Any]) -> Iterator[str]:
    for i, (case, request) in enumerate(asked):
        line: dict[str, Any] = {"case": case, "options": "numbers", "text": answers[i].text}
        if request.logprobs and answers[i].logprobs:
            line["top"] = [[token, round(logprob, 5)] for token, logprob in answers[i].logprobs[0].top]
        yield json.dumps(line, ensure_ascii=False) + "\n"


def main(
    out: Annotated[Path, typer.Option(help="Folder for banks and replies. A run goes on there.")],
    minutes: Annotated[float, typer.Option(help="No new batch after this time.")] = 60.0,
    models: Annotated[str, typer.Option(help="Separated by commas; names of weights, run by transformers.")] = "",
    batch: Annotated[int, typer.Option(help="Requests at a time.")] = BATCH,
    per_label: Annotated[int, typer.Option(help="Usable texts of a label.")] = WANTED,
    data: Annotated[Path | None, typer.Option(help="Folder of the cases; else $SIMDX_DATA.")] = None,
) -> None:
    """Ask first, since it is quick; then the banks, one draw of everything before the next draw."""
    end = time.monotonic() + 60 * minutes
    for model in models.split(",") if models else MODELS:
        simulator = get_simulator(f"hf:{model}", batch=batch)

        def late() -> bool:
            return time.monotonic() > end

        ask(out, model, simulator, late, data)
        write_banks(out, model, simulator, late, per_label)
        simulator.close()


if __name__ == "__main__":
    typer.run(main)
