"""Algorithm 1 with a new generation for every proposal, on the stratified sample (paper/PLAN.md), on a GPU.

    python -m paper.live --out live --panels oral-lesions --part 1/2 --minutes 15

The paper's setting: temperature .2, no facets. When the texts of a label are used up, BATCH more are generated. Each
text is used once. A case that is on file is not run again. Each process runs its part of the cases.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from paper import world
from paper.gpu import SETTINGS, Sampler
from paper.posteriors import BUDGET, LIVE_MODEL, sampled
from simdx.abc.particles import multinomial_live
from simdx.abc.prior import Prior
from simdx.bank.plan import BankPlan, BuildSettings, voice_for
from simdx.bank.scrub import Scrubber, tidy
from simdx.embedders import get_embedder
from simdx.embedders.base import embed_texts
from simdx.simulators import get_simulator
from simdx.types import Float, Int, Panel

BATCH = 1024  # requests at a time
BLOCK = 200  # proposals drawn together
FIRST_SEED = 1000  # above the seeds of all banks


class Fresh:
    """Vectors of new texts of each label. Texts that the scrubber drops are counted and replaced by new ones."""

    def __init__(self, panel: Panel, simulator: Any, seed: int) -> None:
        temperature, facets = SETTINGS["banks"]
        self._plan = BankPlan(panel, simulator.id, BuildSettings(
            per_label=1, temperature=temperature, facets=facets, seed=seed, voice=voice_for(simulator.id),
        ))  # fmt: skip
        self._sampler, self._embedder = Sampler(simulator, seed), get_embedder(panel.embedder)
        self._scrub = [Scrubber.for_topic(panel, name) for name in panel.names]
        self._left: list[list[Float]] = [[] for _ in panel.names]
        self.asked, self.rejected = Counter[str](), Counter[str]()

    def __call__(self, labels: Int, _: np.random.Generator) -> Float:
        for label, wanted in Counter(labels.tolist()).items():
            while len(self._left[label]) < wanted:
                self._left[label] += self._new(label)
        return np.array([self._left[label].pop() for label in labels])

    def _new(self, label: int) -> list[Float]:
        name = self._plan.panel.names[label]
        turn = range(self.asked[name], self.asked[name] + BATCH)
        self.asked[name] += BATCH
        texts = []
        for words, ended in self._sampler.texts([self._plan.planned(name, i).request for i in turn]):
            text = tidy(words, ended)
            reason = self._scrub[label].reason(text)
            if reason is None:
                texts.append(text)
            else:
                self.rejected[f"{name}: {reason}"] += 1
        return list(np.asarray(embed_texts(self._embedder, texts), dtype=float))


def run_cases(out: Path, name: str, part: int, parts: int, minutes: float, data: Path | None) -> None:
    """One case of each label, then the second of each: a run that the time ends is stratified as well."""
    end, cases = time.monotonic() + 60 * minutes, world.read_panel(name, None, None, data)
    panel, y = cases.source.panel, cases.label_index
    rows = sampled([case.id for case in cases.dataset.cases], y)  # label by label, as many of each
    mine = rows.reshape(len(panel.names), -1).T.ravel()[part::parts]
    place = out / f"cases-{name}-{part}.jsonl"
    done = {json.loads(line)["case"] for line in place.read_text("utf-8").splitlines()} if place.is_file() else set()
    simulator = get_simulator(f"hf:{LIVE_MODEL}")
    fresh = Fresh(panel, simulator, FIRST_SEED + part + parts * len(done))  # a run that goes on repeats no text
    seen = np.asarray(embed_texts(get_embedder(panel.embedder), cases.dataset.texts), dtype=float)
    prior = Prior.from_probabilities(panel.names, {})
    out.mkdir(parents=True, exist_ok=True)
    for row in mine:
        case = cases.dataset.cases[row].id
        if case in done or time.monotonic() > end:
            continue
        began, asked = time.monotonic(), fresh.asked.total()
        posterior, trace = multinomial_live(
            fresh, len(panel.names), seen[row] / np.linalg.norm(seen[row]), prior, [int(row)],
            seed=0, budget=BUDGET, batch=BLOCK,
        )  # fmt: skip
        line = {
            "panel": name, "case": case, "label": int(y[row]), "posterior": posterior.probabilities[0].tolist(),
            "populations": int(trace.populations[0]), "simulations": int(trace.total_simulations[0]),
            "asked": fresh.asked.total() - asked, "seconds": round(time.monotonic() - began, 2),
        }  # fmt: skip
        with place.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, file=sys.stderr, flush=True)
    about = {"panel": name, "part": part, "parts": parts, "asked": dict(fresh.asked), "rejected": dict(fresh.rejected)}
    print(json.dumps(about), file=sys.stderr, flush=True)
    (out / f"about-{name}-{part}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder for the answers. A run goes on there.")],
    panels: Annotated[str, typer.Option(help="Separated by commas.")] = "symptom-to-diagnosis,oral-lesions",
    part: Annotated[str, typer.Option(help="Which of how many processes this one is: 0/2.")] = "0/1",
    minutes: Annotated[float, typer.Option(help="No new case after this time.")] = 60.0,
    data: Annotated[Path | None, typer.Option(help="Folder of the cases; else $SIMDX_DATA.")] = None,
) -> None:
    """Each case with its own simulations."""
    at, of = map(int, part.split("/"))
    for name in panels.split(","):
        run_cases(out, name, at, of, minutes, data)


if __name__ == "__main__":
    app()
