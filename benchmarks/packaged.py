"""What is packaged with the panels: the calibration of each by itself, and a policy tuned on simulated text.

    python benchmarks/packaged.py

Run it after `RECIPE_VERSION` was raised, or a packaged bank was changed. No case is looked at.
"""

from __future__ import annotations

from pathlib import Path

from simdx import Classifier
from simdx.bank.files import packaged_bank
from simdx.decide.policy import policy_text
from simdx.embedders import get_embedder
from simdx.methods import Material
from simdx.methods.calibration import FILE, file_text
from simdx.methods.rehearsal import address_for, rehearse
from simdx.panels import PACKAGED, load_source

EMBEDDERS = ("wordllama", "wordllama+minilm")
SOURCE = Path(__file__).parents[1] / "src" / "simdx"


def main() -> None:
    held = {}
    for name in PACKAGED:
        source = load_source(name)
        for embedder in EMBEDDERS:
            material = Material.prepare(source.panel, packaged_bank(source), get_embedder(embedder))
            found = held[address_for(material)] = rehearse(material)
            print(f"{name}, {embedder}: {found.sentence()}", flush=True)
    (SOURCE / "methods" / "data" / FILE).write_text(file_text(held), encoding="utf-8")
    for name in PACKAGED:
        policy = Classifier(name).desk.tuned()
        (SOURCE / "panels" / "data" / name / "policy.yaml").write_text(policy_text(policy), encoding="utf-8")
        print(f"{name}: {policy.thresholds}", flush=True)


if __name__ == "__main__":
    main()
