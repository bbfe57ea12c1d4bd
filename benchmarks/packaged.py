"""What is packaged with the panels: calibrations, policies, compiled panels, evidence for accepting.

    simdx validate transfer … --out results/transfer/record.json
    python benchmarks/packaged.py --data FOLDER            # all of it
    python benchmarks/packaged.py --data FOLDER --evidence # the evidence alone

Run it after `RECIPE_VERSION` was raised, or a packaged bank was changed. Labelled cases say whether a second
expert is heard at all, and have no part in any other number that answers depend on. How well calibrated
answers were on labelled cases is copied from the record of the suite.

Evidence is what labelled cases and outside cases showed of accepting. FOLDER holds them where
`simdx.bench.records.CASES` says. Where a file or an embedder is missing, the panel goes without evidence and
accepts nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from simdx import Classifier
from simdx.bank.files import packaged_bank
from simdx.bench import records
from simdx.decide import policy
from simdx.disk import sealed
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import PanelData, calibration_record
from simdx.methods.calibration import address_for, log_loss, rehearse
from simdx.methods.calibration_record import FILE, SECOND_WEIGHT, Calibration, file_text, read_file
from simdx.methods.experts import Pool
from simdx.panels import PACKAGED, load_source
from simdx.types import Int

# Each embedder, and the record of the suite that was run with it, where there is one.
EMBEDDERS = {"wordllama": "record.json", "wordllama+minilm": None}
ROOT = Path(__file__).parents[1]
RECORDS, SOURCE = ROOT / "results" / "transfer", ROOT / "src" / "simdx"
# Cases of no label for every panel but those that a probe names.
PROBES = ROOT / "tests" / "data" / "outside_probes.jsonl"


def checked(record: str | None, name: str) -> dict[str, Any]:
    """How well calibrated the panel was on the labelled cases of the suite."""
    if record is None:
        return {}
    panels = {p["panel"]: p for p in json.loads((RECORDS / record).read_text(encoding="utf-8"))["panels"]}
    error = panels[name]["ece"]
    interval = (error["low"], error["high"])
    return {"checked": panels[name]["n"], "checked_ece": error["value"], "checked_interval": interval}


def second_weight(data: PanelData, cases: records.Cases) -> float:
    """The second expert's weight at which the labelled cases have the least log loss: none, or the suite's.

    Each half of the cases is asked as well, and what it says is printed: the choice must not hang on a few.
    """
    said = Pool.fit(data).log_likelihoods(data.observe(cases.texts))

    def best(rows: Int) -> float:
        def loss(weight: float) -> float:
            calibrations = (Calibration(sharpness=s, weight=weight) for s in np.geomspace(0.3, 4.0, 30))
            return min(log_loss(np.exp(said.at(rows).under(one)), cases.truth[rows]) for one in calibrations)

        return min((0.0, SECOND_WEIGHT), key=loss)

    every: Int = np.arange(len(cases.truth))
    print(f"weight {best(every)}, by halves {best(every[::2])} and {best(every[1::2])}", flush=True)
    return best(every)


def write_calibrations_and_policies(folder: Path, embedders: Sequence[str]) -> None:
    """Calibrations, then what follows from them: policies, and the compiled panels."""
    target = SOURCE / "methods" / "data" / FILE
    # A run for all embedders drops the calibrations of older recipes.
    held = read_file(target) if len(embedders) < len(EMBEDDERS) else {}
    for name in PACKAGED:
        source = load_source(name)
        for embedder in embedders:
            panel_data = PanelData.prepare(source.panel, packaged_bank(source), get_embedder(embedder))
            weight = 0.0
            if "+" in embedder:
                cases = records.cases_of(source.panel.names, folder / records.CASES[name][0])
                weight = second_weight(panel_data, cases)
            found = replace(rehearse(panel_data, weight=weight), **checked(EMBEDDERS[embedder], name))
            held[address_for(panel_data)] = found
            target.write_text(file_text(held), encoding="utf-8")
            print(f"{name}, {embedder}: {found.sentence()}", flush=True)
    calibration_record._packaged.cache_clear()
    compiled, made = SOURCE / "methods" / "data" / "compiled", list[Path]()
    # What was compiled before, here or in the user's cache, may be of an older reading.
    with patch("simdx.methods.panel_data.look_up", return_value=None):
        for name in PACKAGED:
            if "wordllama" in embedders:
                tuned = Classifier(name).desk.tuned()
                place = SOURCE / "panels" / "data" / name / "policy.yaml"
                place.write_text(policy.policy_text(tuned), encoding="utf-8")
                print(f"{name}: {tuned.thresholds}", flush=True)
            for embedder in embedders:
                made.append(Classifier(name, embedder=embedder).compile(compiled))
                print(f"{name}, {embedder}: {made[-1].name}", flush=True)
    if len(embedders) == len(EMBEDDERS):
        for older in {*compiled.iterdir()} - {*made}:
            older.unlink()


def evidence_of(name: str, embedder: str, folder: Path) -> policy.AcceptEvidence:
    """What the cases show of accepting under the panel's own policy, in which they had no part."""
    classifier = Classifier(name, embedder=embedder)
    cases = records.cases_of(classifier.panel.names, *(folder / file for file in records.CASES[name]))
    probes = map(json.loads, PROBES.read_text(encoding="utf-8").splitlines())
    others = cases.outside + [probe["text"] for probe in probes if name not in probe["inside"]]
    seen, beyond = classifier.observe(cases.texts), classifier.observe(others)
    return classifier.desk.tried_on(seen, cases.truth, beyond)


def write_evidence(folder: Path, embedders: Sequence[str]) -> None:
    """The file is written after every panel, so that a run that was stopped loses nothing."""
    banks = {packaged_bank(load_source(name)).identity[:16] for name in PACKAGED}
    kept = [one for one in policy.packaged_records() if one.made_for["bank"] in banks]
    held = {(one.made_for["bank"], one.made_for["embedder"]): one for one in kept}
    for embedder in embedders:
        for name in PACKAGED:
            try:
                found = evidence_of(name, embedder, folder)
            except BadInput as problem:
                print(f"{name}, {embedder}: no evidence: {problem}", flush=True)
                continue
            enough = "; ".join(found.shortcomings()) or "enough"
            print(f"{name}, {embedder}: {found.sentence()}: {enough}", flush=True)
            held[found.made_for["bank"], found.made_for["embedder"]] = found
            target = SOURCE / "decide" / "data" / policy.FILE
            body = sealed({"evidence": [asdict(one) for one in held.values()]})
            target.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled and outside cases")
    parser.add_argument("--evidence", action="store_true", help="write the evidence alone")
    parser.add_argument("--embedder", choices=EMBEDDERS, help="this one alone")
    asked = parser.parse_args()
    embedders = [asked.embedder] if asked.embedder else list(EMBEDDERS)
    if not asked.evidence:
        write_calibrations_and_policies(asked.data, embedders)
    write_evidence(asked.data, embedders)


if __name__ == "__main__":
    main()
