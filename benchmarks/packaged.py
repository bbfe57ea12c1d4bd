"""What is packaged with the panels: the calibration of each by itself, and a policy tuned on simulated text.

    simdx validate transfer … --out results/transfer/record.json
    python benchmarks/packaged.py

Run it after `RECIPE_VERSION` was raised, or a packaged bank was changed. No case has a part in a number that
answers depend on; how well calibrated they were on labelled cases is copied from the record of the suite.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from simdx import Classifier
from simdx.bank.files import packaged_bank
from simdx.decide.policy import policy_text
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.methods.calibration import address_for, rehearse
from simdx.methods.calibration_record import FILE, file_text
from simdx.panels import PACKAGED, load_source

# Each embedder, and the record of the suite that was run with it, where there is one.
EMBEDDERS = {"wordllama": "record.json", "wordllama+minilm": None}
RECORDS = Path(__file__).parents[1] / "results" / "transfer"
SOURCE = Path(__file__).parents[1] / "src" / "simdx"


def checked(record: str | None, name: str) -> dict[str, Any]:
    """How well calibrated the panel was on the labelled cases of the suite."""
    if record is None:
        return {}
    panels = {p["panel"]: p for p in json.loads((RECORDS / record).read_text(encoding="utf-8"))["panels"]}
    error = panels[name]["ece"]
    interval = (error["low"], error["high"])
    return {"checked": panels[name]["n"], "checked_ece": error["value"], "checked_interval": interval}


def main() -> None:
    held = {}
    for name in PACKAGED:
        source = load_source(name)
        for embedder, record in EMBEDDERS.items():
            panel_data = PanelData.prepare(source.panel, packaged_bank(source), get_embedder(embedder))
            found = replace(rehearse(panel_data), **checked(record, name))
            held[address_for(panel_data)] = found
            print(f"{name}, {embedder}: {found.sentence()}", flush=True)
    (SOURCE / "methods" / "data" / FILE).write_text(file_text(held), encoding="utf-8")
    for name in PACKAGED:
        policy = Classifier(name).desk.tuned()
        (SOURCE / "panels" / "data" / name / "policy.yaml").write_text(policy_text(policy), encoding="utf-8")
        print(f"{name}: {policy.thresholds}", flush=True)


if __name__ == "__main__":
    main()
