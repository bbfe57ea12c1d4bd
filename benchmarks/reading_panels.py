"""Ways of reading denied findings on labelled panels.

    python benchmarks/reading_panels.py NAME=PANEL:CASES[:OUTSIDE[:NETWORK]]…

Writes results/reading/panels.json. For each panel and way of reading (`simdx.reading.as_read`): accuracy
among the labels, ECE, out-of-class AUROC, and the differences to `plain` with paired 95 % intervals; and the
way that the bank chooses. The library is left out, so that only the reading differs. `ways` is the fast path
(wordllama alone); `default` the same where MiniLM is installed, which packaged panels do without.
`words` compares what to do with denials in a regression on the bank's words: delete them, make them features
of their own, or give them a row of their own beside that of what is said. `windows`, on panels of long texts:
the mean log posterior of windows. `methods`, where a network is named (`simdx abi train`): accuracy of each
method with plain and with the chosen reading. The films are reports of the Indiana University collection
(Demner-Fushman et al. 2016, Open-i) as benchmarks/films.py takes them.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import hstack
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from simdx import __version__
from simdx.bank.files import packaged_bank
from simdx.bench import records
from simdx.classifier import Classifier
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.methods.calibration import rehearse, scores_of
from simdx.methods.logistic import choose_reading
from simdx.methods.panel_data import RECIPE_VERSION
from simdx.metrics import paired_bootstrap
from simdx.panels import load_source
from simdx.reading import CUT, DENIED, FOUND, PLAIN, as_read
from simdx.types import Bank, Float, Int, Panel

OUT = Path(__file__).resolve().parent.parent / "results" / "reading" / "panels.json"
FAST = "wordllama"
METHODS = ("m-smc", "d-smc", "abi", "centroid", "tfidf", "bank-logistic")
LONG, WINDOW = 300, 120  # words: of a long text, by the median; of a window


def measured(panel: str, inside: str, outside: str = "", network: str = "") -> dict[str, Any]:
    """Every way on one panel."""
    source = load_source(panel)
    bank = packaged_bank(source)
    cases = records.cases_of(source.panel.names, Path(inside), Path(outside) if outside else None)
    way = choose_reading(bank)
    opened = partial(_opened, replace(source.panel, world=False), bank)
    ways = dict.fromkeys((PLAIN, CUT, DENIED, FOUND, way))
    found = {"n": len(cases.truth), "chosen": way, "ways": by_ways(partial(opened, FAST), ways, cases)}
    if (default := source.panel.embedder) != FAST:
        found["default"] = {"embedder": default} | by_ways(partial(opened, default), ways, cases)
    found["words"] = by_words(bank, cases.texts, cases.truth)
    return found | ({"methods": by_methods(panel, way, cases, network)} if network else {})


def _opened(panel: Panel, bank: Bank, embedder: str, reading: str) -> PanelData:
    data = PanelData.prepare(replace(panel, embedder=embedder), bank, get_embedder(embedder), reading=reading)
    return replace(data, calibration=rehearse(data))


def by_ways(opened: Callable[[str], PanelData], ways: Iterable[str], cases: records.Cases) -> dict[str, Any]:
    """Each way's figures, the first of them being the one to differ from."""
    rows, plain = dict[str, Any](), None
    for reading in ways:
        data = opened(reading)
        assert data.calibration is not None
        seen = scores_of(data, data.observe(cases.texts), cases.truth)
        among = seen.posterior(replace(data.calibration, outside=None))
        plain = among if plain is None else plain
        none, auroc = seen.outside(data.calibration), None
        if cases.outside and none is not None:
            beyond = scores_of(data, data.observe(cases.outside)).outside(data.calibration)
            auroc = round(records.outside_auroc(none, beyond), 4)
        rows[reading] = against(plain, among, cases.truth) | {"auroc": auroc}
        if reading == PLAIN and np.median([len(text.split()) for text in cases.texts]) > LONG:
            rows["windows"] = against(plain, by_windows(data, cases.texts), cases.truth)
    return rows


def by_methods(panel: str, way: str, cases: records.Cases, network: str) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for method in METHODS:
        for reading in (PLAIN, way):
            settings = {"network": network} if method == "abi" else {}
            classifier = Classifier(panel, method=method, embedder=FAST, reading=reading, **settings)
            among = classifier.predict_proba(cases.texts)
            out.setdefault(method, {})[reading] = round(records.accuracy(among, cases.truth), 4)
    return out


def against(plain: Float, among: Float, truth: Int) -> dict[str, Any]:
    """Accuracy and ECE, and what they differ by from plain reading."""
    rng, metrics = np.random.default_rng(0), ("accuracy", "ece")
    found = paired_bootstrap(plain, among, truth, metrics=metrics, resamples=2000, rng=rng)
    out: dict[str, Any] = {
        "accuracy": round(records.accuracy(among, truth), 4),
        "ece": round(records.calibration_error(among, truth), 4),
    }
    for name, one in found.items():
        if one.low is not None and one.high is not None:
            out[f"{name}_difference"] = [round(float(x or 0), 4) for x in (one.value, one.low, one.high)]
    return out


def by_windows(data: PanelData, texts: list[str]) -> Float:
    """Each text by the mean log posterior of its windows."""
    pieces, of = [], []
    for i, text in enumerate(texts):
        words = text.split()
        starts = range(0, max(1, len(words) - WINDOW // 2), WINDOW)
        pieces += [" ".join(words[start : start + WINDOW]) for start in starts]
        of += [i] * len(starts)
    scores = scores_of(data, data.observe(pieces), np.zeros(len(pieces), dtype=np.int64))
    log = np.log(np.maximum(scores.posterior(replace(data.calibration, outside=None)), 1e-6))
    return softmax([log[np.array(of) == i].mean(axis=0) for i in range(len(texts))], axis=1)


def by_words(bank: Bank, texts: list[str], truth: Int) -> dict[str, float]:
    """Accuracy of a regression on the bank's words by what is done with denials."""
    out = {}
    for name, way in (("plain", PLAIN), ("deleted", CUT), ("own features", DENIED), ("two rows", DENIED)):
        parts = [[as_read(text, way) for text in some] for some in (bank.texts, texts)]
        said, denied = ([[one[k].lower() for one in some] for some in parts] for k in (0, 1))
        if name == "own features":
            # Capitals make a denied word another feature than the same word said.
            said = [[f"{one[0].lower()} {one[1].upper()}" for one in some] for some in parts]
        rows = _rows(said)
        if name == "two rows" and any(denied[0]):
            rows = [hstack(pair) for pair in zip(rows, _rows(denied), strict=True)]
        model = LogisticRegression(C=10, max_iter=1000).fit(rows[0], bank.label_index)
        out[name] = round(float((model.predict(rows[1]) == truth).mean()), 4)
    return out


def _rows(texts: list[list[str]]) -> list[Any]:
    weigh = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, lowercase=False)
    return [weigh.fit_transform(texts[0]), weigh.transform(texts[1])]


def main() -> None:
    """Measure and write the record; panels that are not named keep what the record says of them."""
    panels = json.loads(OUT.read_text(encoding="utf-8"))["panels"] if OUT.is_file() else {}
    for said in sys.argv[1:]:
        name, _, files = said.partition("=")
        panels[name] = {"recipe": RECIPE_VERSION} | measured(*files.split(":"))
        print(name, json.dumps(panels[name]), flush=True)
        record = {
            **records.heading("python benchmarks/reading_panels.py NAME=PANEL:CASES[:OUTSIDE[:NETWORK]]…"),
            "version": __version__,
            "embedder": FAST,
            "panels": panels,
        }
        records.write_record(OUT, record)


if __name__ == "__main__":
    main()
