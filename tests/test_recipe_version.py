"""What an answer is has a number: figures that move ask for another, and older results are not used then."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx import Classifier
from simdx import evaluate as evaluation
from simdx.datasets import Dataset
from simdx.decide import desk
from simdx.decide.policy import Policy
from simdx.methods import RECIPE_VERSION, Settings, fitted
from simdx.runs import PARTS
from simdx.scale.classify import Job, digest
from simdx.types import Bank, Case, Label, Panel

FIGURES = Path(__file__).with_name("recipe_figures.json")
METHODS = ("auto", "m-smc", "d-smc")
# The figures were recorded on one processor and must hold on every other: a fit stops where its gain is
# rounding, and log odds show rounding more than probabilities do.
SLACK = {"posterior": 1e-5, "out_of_class": 1e-5, "alarm": 1e-4}
ORAL = (
    "A soft bluish swelling of the lower lip that comes and goes. He bites his lip.",
    "A hard ulcer of the tongue with rolled edges and a fixed node.",
    "My knee hurts when I climb stairs.",
)
TOY = ("red sweet fruit from the orchard", "the boat and the motor", "a grey cloud above the wall")
WORDS = (
    "red sweet fruit tree orchard juice core peel",
    "water bank current bridge flood boat stream delta",
    "piston oil fuel gear heat torque motor valve",
)


def toy() -> tuple[Panel, Bank]:
    """A bank whose every text is written here, so that nothing else moves its figures."""
    names = ("apple", "river", "engine")
    panel = Panel("toy", tuple(map(Label, names)), register="plain", embedder="hashing")
    texts = [
        " ".join(words.split()[(i + j * (1 + i // 8)) % 8] for j in range(5))
        for words in WORDS
        for i in range(12)
    ]
    background = ("a grey cloud above", "a stone wall", "a cloud and a wall", "the wall of grey stone")
    return panel, Bank("toy", names, tuple(texts), np.repeat(np.arange(3), 12), background, name="toy")


def figures(name: str, method: str) -> dict[str, list[Any]]:
    classifier = Classifier(*toy(), method=method) if name == "toy" else Classifier(name, method=method)
    seen = classifier.observe(TOY if name == "toy" else ORAL)
    table = classifier.infer_batch_observed(seen)
    return {
        "posterior": table.posterior.tolist(),
        "out_of_class": [] if table.out_of_class is None else table.out_of_class.tolist(),
        "alarm": classifier.desk.alarms(seen, table)[0].score.tolist(),
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["oral-lesions", "toy"])
def test_the_figures_stand_still(name: str, method: str, private_home: Path) -> None:
    kept = json.loads(FIGURES.read_text(encoding="utf-8"))
    why = (
        "an answer is not what it was: if that is meant, raise RECIPE_VERSION in methods/panel_data.py, and "
        "write the new figures with 'python -m tests.test_recipe_version'"
    )
    assert kept["recipe"] == RECIPE_VERSION, why
    found = figures(name, method)
    for column, values in kept[name][method].items():
        np.testing.assert_allclose(found[column], values, rtol=0, atol=SLACK[column], err_msg=why)


def test_a_policy_of_another_recipe_is_looked_for_anew(
    private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packaged policy is used; under another recipe it is not."""
    packaged = Classifier("oral-lesions")
    kept = packaged.panel_files.policy
    assert packaged.policy is kept
    monkeypatch.setattr(fitted, "RECIPE_VERSION", RECIPE_VERSION + 1)
    other = Classifier("oral-lesions")
    assert not kept.fits(other.desk.fingerprint)
    tuned: list[bool] = []

    def fresh(self: desk.Desk, risk: float = 0.05) -> Policy:
        tuned.append(True)
        return kept

    monkeypatch.setattr(desk.Desk, "tuned", fresh)
    assert other.policy.fits(other.desk.fingerprint)
    assert tuned  # it was looked for anew, and not taken from beside the panel


def test_a_guarantee_is_withheld_under_another_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    panel, bank = toy()
    policy = Classifier(panel, bank).tune_policy(bank.texts, bank.label_index, risk=0.2)
    assert Classifier(panel, bank, policy=policy).infer(TOY[0], explain=False).conformal_set is not None
    monkeypatch.setattr(fitted, "RECIPE_VERSION", RECIPE_VERSION + 1)
    answer = Classifier(panel, bank, policy=policy).infer(TOY[0], explain=False)
    assert answer.conformal_set is None


def test_chunks_of_another_recipe_are_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel, bank = toy()
    classifier = Classifier(panel, bank)
    cases = tuple(Case(f"{text} {i}", str(i), panel.names[i % 3]) for i, text in enumerate(TOY * 4))
    data = Dataset("toy", cases, panel.names)
    asked: list[int] = []
    answer = classifier.infer_batch_observed
    monkeypatch.setattr(
        classifier, "infer_batch_observed", lambda seen, prior: asked.append(1) or answer(seen, prior)
    )

    def run() -> str:
        evaluation.evaluate(classifier, data, out=tmp_path, resamples=100)
        (kept,) = (tmp_path / PARTS).iterdir()
        return kept.name

    first = run()
    assert (run(), len(asked)) == (first, 1)
    monkeypatch.setattr(fitted, "RECIPE_VERSION", RECIPE_VERSION + 1)
    assert run() != first
    assert len(asked) == 2


def test_a_job_of_another_recipe_is_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Job.make("oral-lesions", None, Settings())
    classifier = made.classifier()
    before = digest(made.describe(classifier))
    assert digest(made.describe(classifier)) == before
    monkeypatch.setattr(fitted, "RECIPE_VERSION", RECIPE_VERSION + 1)
    assert digest(made.describe(classifier)) != before


if __name__ == "__main__":
    every = {name: {method: figures(name, method) for method in METHODS} for name in ("oral-lesions", "toy")}
    FIGURES.write_text(json.dumps({"recipe": RECIPE_VERSION, **every}, indent=1) + "\n", encoding="utf-8")
