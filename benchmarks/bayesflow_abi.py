"""The amortised network beside BayesFlow 2's model comparison, trained on the same simulations.

    python3 -m venv bf && bf/bin/pip install bayesflow==2.0.12 keras==3.15.1 torch==2.13.0
    python benchmarks/bayesflow_abi.py --data ../shared/data --python bf/bin/python

A label is a model, the embedding of a bank's text is one simulated data set, and the posterior over models is
the answer to a case. BayesFlow is no dependency: `--python` names an interpreter that has it, and this file
is run there again with `--fit`. Its workflow is the documented one (`ModelComparisonApproximator`, an MLP,
data in memory, a tenth held out); it sees the vectors, or the K coordinates that our network reads. Times are
of the processor, without the embedding, which is the same for all.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PANELS = {
    "oral-lesions": "oral/vignettes.jsonl",
    "symptom-to-diagnosis": "sd/cases.jsonl",
}
SEEDS, EPOCHS, BATCH, REPEATS = (0, 1, 2), 60, 32, 20
SHOWN = ("accuracy", "ece", "nll", "brier", "error_auroc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--python", help="an interpreter that has BayesFlow")
    parser.add_argument("--out", type=Path, default=Path("results/bayesflow"))
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fit is not None:
        print(json.dumps(fit(np.load(asked.fit))))
        return
    if asked.data is None or asked.python is None:
        parser.error("--data and --python are needed")
    from simdx import __version__
    from simdx.runs.record import current_commit

    record: dict[str, Any] = {
        "command": f"python benchmarks/bayesflow_abi.py --data {asked.data} --python PYTHON",
        "commit": current_commit(),
        "simdx": __version__,
        "settings": {"seeds": SEEDS, "epochs": EPOCHS, "batch": BATCH, "inference_repeats": REPEATS},
        "panels": {},
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    for panel, file in PANELS.items():
        found, versions = compare(panel, asked.data / file, asked.python)
        record["panels"][panel] = found
        record["versions"] = versions
        (asked.out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def compare(panel: str, file: Path, python: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Every arm on one panel: metrics as means over the seeds, seconds of the processor."""
    from simdx import Classifier
    from simdx.abc.prior import Prior
    from simdx.abc.space import Space
    from simdx.amortised.method import Amortised
    from simdx.amortised.observations import from_bank
    from simdx.amortised.train import TrainSettings, train
    from simdx.datasets.files import read_cases

    classifier = Classifier(panel, method="d-smc")
    material = classifier.fitted.material
    cases = read_cases(file, labels=classifier.panel.names)
    labels = [str(case.label) for case in cases.cases]
    seen = classifier.observe(list(cases.texts))
    y = np.array([classifier.panel.names.index(label) for label in labels])
    space = Space.fit(material.embedded, centre=False)
    coordinates = from_bank(space)[: len(space.bank)]
    prior = Prior.uniform(space.n_labels)
    arms: dict[str, list[tuple[Any, float, float]]] = {}
    for seed in SEEDS:
        started = time.process_time()
        network = train(material, TrainSettings(seed=seed))
        spent = time.process_time() - started
        ours = Amortised(material, network)
        each = per_case(lambda ours=ours: ours.infer(seen, prior).posterior.probabilities, len(y))
        arms.setdefault("abi (simdx)", []).append((each[0], spent, each[1]))
    each = per_case(lambda: classifier.fitted.infer(seen, prior).posterior.probabilities, len(y))
    arms["d-smc, closed form"] = [(each[0], 0.0, each[1])]
    versions: dict[str, str] = {}
    inputs = {
        "bayesflow, vectors": (space.bank, space.transform(seen.vectors)),
        "bayesflow, coordinates": (coordinates, space.transform(seen.vectors) @ space.class_means.T),
    }
    for name, (x, observed) in inputs.items():
        with tempfile.TemporaryDirectory() as folder:
            given = Path(folder) / "given.npz"
            np.savez(given, x=x, label=space.label_index, observed=observed)
            done = subprocess.run(
                [python, __file__, "--fit", str(given)],
                env={**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
        versions = told["versions"]
        arms[name] = [(np.array(r["p"]), r["training_s"], r["inference_s"]) for r in told["runs"]]
    n = {"cases": len(y), "simulations": len(space.bank), "labels": space.n_labels}
    return {**n, "arms": {name: measured(runs, y) for name, runs in arms.items()}}, versions


def per_case(answer: Any, n: int) -> tuple[Any, float]:
    """What it answers, and seconds of the processor a case, over several rounds of all cases."""
    p = answer()
    started = time.process_time()
    for _ in range(REPEATS):
        answer()
    return p, (time.process_time() - started) / (REPEATS * n)


def measured(runs: list[tuple[Any, float, float]], y: Any) -> dict[str, Any]:
    from simdx.metrics import evaluate_probabilities

    scores = [evaluate_probabilities(p, y) for p, _, _ in runs]
    return {
        **{name: round(float(np.mean([s[name] for s in scores])), 4) for name in SHOWN},  # type: ignore[arg-type]
        "accuracy_by_seed": [round(float(s["accuracy"]), 4) for s in scores],  # type: ignore[arg-type]
        "training_cpu_s": round(float(np.mean([t for _, t, _ in runs])), 2),
        "inference_us_a_case": round(1e6 * float(np.mean([t for _, _, t in runs])), 1),
    }


def fit(given: Any) -> dict[str, Any]:
    """BayesFlow's workflow, run by the interpreter that has it: posteriors and seconds for each seed."""
    import bayesflow as bf
    import keras
    import torch

    torch.set_num_threads(1)
    x, label, observed = (given[name].astype("float32") for name in ("x", "label", "observed"))
    models, runs = int(label.max()) + 1, []
    onehot = np.eye(models, dtype="float32")[label.astype(int)]
    for seed in SEEDS:
        keras.utils.set_random_seed(seed)
        order = np.random.default_rng(seed).permutation(len(x))
        held, kept = np.split(order, [len(order) // 10])
        adapter = (
            bf.Adapter().rename("model_indices", "inference_variables").rename("x", "inference_conditions")
        )

        def data(rows: Any, adapter: Any = adapter) -> Any:
            told = {"model_indices": onehot[rows], "x": x[rows]}
            return bf.datasets.OfflineDataset(told, BATCH, adapter)

        started = time.process_time()
        approximator = bf.approximators.ModelComparisonApproximator(
            num_models=models,
            classifier_network=bf.networks.MLP([64, 64]),
            adapter=adapter,
            standardize="inference_conditions",
        )
        rate = keras.optimizers.schedules.CosineDecay(5e-4, EPOCHS * -(-len(kept) // BATCH))
        approximator.compile(optimizer=keras.optimizers.Adam(rate))
        with torch.enable_grad():
            approximator.fit(dataset=data(kept), validation_data=data(held), epochs=EPOCHS, verbose=0)
        spent = time.process_time() - started
        p, each = per_case(lambda a=approximator: a.predict(conditions={"x": observed}), len(observed))
        p = np.asarray(p, dtype=float)
        runs.append({"p": (p / p.sum(1, keepdims=True)).tolist(), "training_s": spent, "inference_s": each})
    versions = {"bayesflow": bf.__version__, "keras": keras.__version__, "torch": torch.__version__}
    return {"versions": versions, "runs": runs}


if __name__ == "__main__":
    main()
