"""Evaluate a classifier on labelled cases: numbers per case, metrics with intervals, files and a report.

    dataset ──► classifier, chunk by chunk ──► rows ──► metrics ──► record ──► report

The record has the command line's key names; a metric that is undefined is None and `undefined` says why.
Rows hold ids, labels, probabilities and the fields asked for with `by`, never a case's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simdx import __version__, evaluation, metrics
from simdx.abc.prior import Prior
from simdx.datasets.dataset import Dataset, check_options, differentials, options_of
from simdx.decide.alarm import alarm_performance
from simdx.disk import make_folder, replacing, write_atomically
from simdx.errors import BadInput, MissingExtra
from simdx.metrics.conformal import measured_sets
from simdx.metrics.gaps import subgroup_gaps
from simdx.runs import Arrays, Progress, Result, Spec, Store, identity, run
from simdx.types import Case, Int, content_hash, entropy_bits, plain

if TYPE_CHECKING:
    from simdx.answer import Answer
    from simdx.classifier import Classifier, PriorLike
    from simdx.methods.panel_data import Observations

_FIRST = (1, 3, 5)  # accuracy among so many labels, of panels with more than the last


@dataclass(frozen=True, slots=True)
class _Asked:
    """A classifier under one prior, and the data sets it is asked about."""

    classifier: Classifier
    prior: Prior
    data: dict[str, Dataset]  # cases; ood and calibrate where there are such
    options: str | None = None  # the field of the labels a case is to be told among

    @property
    def settings(self) -> dict[str, Any]:
        prior = [*self.prior.probabilities.tolist(), self.prior.alpha0]
        options = {} if self.options is None else {"options": self.options}
        return {**asdict(self.classifier.settings), "prior": prior, **options}

    @property
    def hashes(self) -> dict[str, str]:
        return {**self._sources, **{name: data.hash for name, data in self.data.items()}}

    @property
    def _sources(self) -> dict[str, str]:
        one = self.classifier
        return {"panel": one.panel.hash, "bank": one.bank.identity, "embedder": one.embedder.id}

    def key(self, name: str) -> str:
        """Everything that decides the numbers of one data set."""
        data = self.data[name]
        told = "" if self.options is None else content_hash(*map(str, map(self._options_of, data.cases)))
        return identity(self.settings, {**self._sources, "data": data.hash + told, "columns": "3"})[:24]

    def answers(self, name: str, store: Store, **how: Any) -> Arrays:
        return store.answers(self.key(name), self.data[name].cases, self._answer, **how)

    def _options_of(self, case: Case) -> tuple[str, ...] | None:
        return None if self.options is None else options_of(case, self.options)

    def answer_to(self, case: Case) -> Answer:
        return self.classifier.infer(case.text, self.classifier.prior(self.prior, self._options_of(case)))

    def _answer(self, cases: Sequence[Case]) -> Arrays:
        """A batch as plain arrays: the cases that share their options together."""
        observations = self.classifier.observe([case.text for case in cases])
        groups: dict[tuple[str, ...] | None, list[int]] = {}
        for i, case in enumerate(cases):
            groups.setdefault(self._options_of(case), []).append(i)
        if len(groups) == 1:
            return self._answer_among(observations, next(iter(groups)))
        parts = [self._answer_among(observations.at(np.array(r)), options) for options, r in groups.items()]
        back = np.argsort(np.concatenate([np.array(rows) for rows in groups.values()]))
        return {name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}

    def _answer_among(self, observations: Observations, options: tuple[str, ...] | None) -> Arrays:
        """What a method does not have is left out."""
        prior = self.classifier.prior(self.prior, options)
        batch = self.classifier.infer_batch_observed(observations, prior)
        parts = self.classifier.desk.decide(observations, batch, explain=False)
        found: dict[str, Any] = {
            "posterior": batch.posterior, "among_labels": batch.among_labels,
            "typicality": batch.typicality, "effective_simulations": batch.effective_simulations,
            "alarm_score": [one.alarm.score for one in parts],
            "alarm_flag": [one.alarm.flag for one in parts],
            "action": [evaluation.ACTION_NAMES.index(one.decision.action) for one in parts],
        }  # fmt: skip
        if batch.out_of_class is not None:
            found["out_of_class"] = batch.out_of_class
        if batch.second_order is not None:
            found |= {name: getattr(batch.second_order, name) for name in (*evaluation.BITS, "alpha0")}
        return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}


def evaluate(
    classifier: Classifier,
    dataset: Dataset,
    *,
    ood: Dataset | None = None,
    by: Sequence[str] = (),
    prior: PriorLike = None,
    options: str | None = None,
    calibrate: Dataset | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    show_texts: bool = False,
    resamples: int = 2000,
    coverage: float = 0.9,
    progress: Progress | None = None,
) -> evaluation.Evaluation:
    """Classify every case and measure the answers; cases with a `differential` are held against it too.

    `options` names a field with the labels that a case is to be told among, where a question brings its own.
    `calibrate` is a labelled set, disjoint from `dataset` by text, on which a temperature is fitted and then
    applied to every posterior. Conformal sets of `coverage` are calibrated on it too; without it, on other
    cases of `dataset`. With `out`, per-case rows (Parquet), metrics (JSON) and a report (HTML) are written
    there, and a run that was killed goes on where it stopped. The report quotes case texts only with
    `show_texts`.
    """
    labels = classifier.panel.names
    y, k = dataset.label_index(labels), len(labels)
    if options is not None:
        check_options(dataset, options, labels)
        if ood is not None or calibrate is not None:
            raise BadInput("cases with options of their own are evaluated alone: leave out ood and calibrate")
    references = differentials(dataset, labels)
    fields = {entry: evaluation.groups_of(dataset, entry) for entry in by}
    store = Store(None if out is None else _prepare(Path(out)), place="")
    # A case the classifier was given with its label says nothing about other cases. A text of the archive may
    # be asked about: it is answered by a fit without it.
    real = classifier.data.real
    labelled = () if real is None else real.only(~real.inferred).texts
    for asked_about in (dataset, ood):
        _refuse_known(labelled, asked_about, "among the real cases given")
    _refuse_known(() if calibrate is None else calibrate.texts, dataset, "in the calibration set")
    given = {"cases": dataset, "ood": ood, "calibrate": calibrate}
    data = {name: one for name, one in given.items() if one is not None}
    asked = _Asked(classifier, classifier.prior(prior), data, options)
    found: list[evaluation.Evaluation] = []

    def measure(asked: _Asked) -> Result:
        arrays = asked.answers("cases", store, resume=resume, progress=progress)
        outside = None if ood is None else asked.answers("ood", store, resume=resume)
        temperature, held = None, None
        raw = arrays["posterior"][:, :k]  # the temperature has seen the labels on which sets are calibrated
        if calibrate is not None:
            known = asked.answers("calibrate", store, resume=resume)
            truth = calibrate.label_index(labels)
            held = (known["posterior"][:, :k], truth)
            fitted = metrics.fit_temperature(known["posterior"], truth)
            temperature = asdict(fitted)
            arrays = _tempered(arrays, fitted.value)
            outside = None if outside is None else _tempered(outside, fitted.value)
        rng = np.random.default_rng(classifier.settings.seed)
        record = _figures(arrays, y, k, fields, resamples, rng)
        if ood is not None and outside is not None:
            record["ood"] = _ood(ood, arrays, outside, resamples=resamples, rng=rng)
        record |= {
            "panel": classifier.panel.name,
            "method": classifier.settings.method,
            "engine": classifier.settings.engine,
            "embedder": classifier.embedder.id,
            "temperature": temperature,
            "provenance": {
                "bank": f"{classifier.bank.name}@{classifier.bank.identity[:16]}",
                "settings": asdict(classifier.settings),
                "version": __version__,
                "remote": classifier.remote,
                "resamples": resamples,
                "notes": list(classifier.notes),
            },
        }
        how: dict[str, Any] = {"resamples": resamples, "rng": np.random.default_rng(classifier.settings.seed)}
        if k > _FIRST[-1]:  # the share of cases whose label is among the first so many outcomes
            before = metrics.gold_rank(arrays["posterior"], y)
            shares = metrics.mean_values({str(n): before < n for n in _FIRST}, **how)
            record["accuracy_at"] = {**shares.values, "ci": shares.ci}
        if references is not None:
            told = {name: values[references.cases] for name, values in arrays.items()}
            none = told.get("out_of_class")
            record["differential"] = metrics.compare_differentials(
                told["among_labels"], references.inside, references.outside, none, **how
            )
        record["conformal"] = measured_sets(
            raw, y, labels, asked.prior.probabilities, level=coverage, calibration=held,
            groups=_groups_of_both(dataset, calibrate, by), **how,
        )  # fmt: skip
        record["dataset"] = {"name": dataset.name, "hash": dataset.hash, "notice": dataset.notice}
        curves = evaluation.plotted(arrays["posterior"], y, classifier.outcomes, k)
        result = evaluation.Evaluation(
            record, curves, labels, classifier.outcomes, dataset, ood, y, arrays, outside, fields
        )
        found.append(result)
        if store.folder is not None:
            _write_beside(result, store.folder, asked, show_texts)
        return Result({**record, "curves": curves})

    settings = {"settings": {**asked.settings, "by": list(by), "resamples": resamples}}
    # Its record, metrics.json, is written last: it means "complete".
    run(Spec("evaluate", "metrics", settings, measure), asked, store, fresh=True)
    store.forget_answers({asked.key(name) for name in asked.data})
    return found[0]


def _write_beside(result: evaluation.Evaluation, folder: Path, asked: _Asked, show_texts: bool) -> None:
    """cases.parquet, ood.parquet and report.html."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from simdx.report.evaluation import render_evaluation

    for name, table in (("cases.parquet", result.rows()), ("ood.parquet", result.ood_rows())):
        if table is not None:
            with replacing(folder / name) as file:
                pq.write_table(pa.table(table), file)
    by_case = {i: asked.answer_to(result.dataset.cases[i]) for i in result.worst()}
    page = render_evaluation(result, by_case, panel=asked.classifier.panel, show_texts=show_texts)
    write_atomically(folder / "report.html", page)


def _figures(
    arrays: Arrays, y: Int, k: int, fields: dict[str, list[str]], resamples: int, rng: np.random.Generator
) -> dict[str, Any]:
    """What the answers say by themselves; what needs more is None."""
    p = arrays["posterior"]
    found = metrics.evaluate_probabilities(p, y, labels=k, resamples=resamples, rng=rng)
    group_resamples = max(200, resamples // 2)
    groups = {}
    for name, values in fields.items():
        groups[name] = metrics.by_group(p, y, values, resamples=group_resamples, rng=rng)
    gaps = subgroup_gaps(p, y, fields, resamples=group_resamples, rng=rng)
    among = metrics.headline_values(arrays["among_labels"], y)
    wrong = metrics.errors(p, y)
    chosen = {name: arrays["action"] == i for i, name in enumerate(evaluation.ACTION_NAMES)}
    return {
        **found,
        "ood": None,
        "accuracy_at": None,
        "differential": None,
        "alarm": alarm_performance(p[:, :k], y, arrays["alarm_flag"] == 1),
        "decisions": {
            name: {"n": int(c.sum()), "errors": int((c & (wrong == 1)).sum())} for name, c in chosen.items()
        },
        "groups": groups,
        "audit": gaps,
        "among_labels": {name: value.value for name, value in among.items()},
        "second_order": evaluation.second_order_spread(arrays, wrong),
    }


def _ood(ood: Dataset, arrays: Arrays, outside: Arrays, **how: Any) -> dict[str, Any]:
    """Separation by the out-of-class probability if there is one, else by entropy; the others beside it."""
    candidates = {
        "out_of_class": (arrays.get("out_of_class"), outside.get("out_of_class")),
        "entropy_bits": (metrics.uncertainty(arrays["posterior"]), metrics.uncertainty(outside["posterior"])),
        "atypicality": (1 - arrays["typicality"], 1 - outside["typicality"]),
        "epistemic_bits": (arrays.get("epistemic_bits"), outside.get("epistemic_bits")),
    }
    usable = {name: (a, b) for name, (a, b) in candidates.items() if a is not None and b is not None}
    score = next(iter(usable))
    known = {key for case in ood.cases for key in case.fields}
    kind = next((name for name in ("distance", "topic") if name in known), None)
    kinds = np.array(evaluation.group_names(ood.field(kind)) if kind else [], dtype=object)
    inside, beyond = usable[score]
    by = {}
    for value in sorted(set(kinds)):
        own = beyond[kinds == value]
        by[value] = {"n": len(own), "auroc": metrics.ood_auroc(inside, own).value}
    none: dict[str, Any] = dict.fromkeys(
        ("mean_inside", "mean_outside", "answered_none", "answered_none_inside")
    )
    ci: dict[str, list[float] | None] = {"mean_inside": None, "mean_outside": None}
    if "out_of_class" in arrays and "out_of_class" in outside:
        k = arrays["among_labels"].shape[1]
        for name, side in (("mean_inside", arrays), ("mean_outside", outside)):
            mean = metrics.mean_values({name: side["out_of_class"]}, **how)
            none |= mean.values
            ci |= mean.ci
        # The share of these cases that are answered as they should be, and what it costs the panel's own.
        for name, side in (("answered_none", outside), ("answered_none_inside", arrays)):
            none[name] = float((side["posterior"].argmax(axis=1) == k).mean())
    return {
        "n": len(beyond),
        "score": score,
        "auroc": metrics.ood_auroc(inside, beyond).value,
        **none,
        "ci": ci,
        "entropy_bits": float(entropy_bits(outside["posterior"]).mean()),
        "by": by,
        "scores": {name: metrics.ood_auroc(a, b).value for name, (a, b) in usable.items()},
    }


def _tempered(arrays: Arrays, temperature: float) -> Arrays:
    found = {**arrays, "posterior": metrics.apply_temperature(arrays["posterior"], temperature)}
    return found | ({"out_of_class": found["posterior"][:, -1]} if "out_of_class" in arrays else {})


def _prepare(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: --out needs a folder")
    try:
        import pyarrow  # noqa: F401  # asked for before the work, not after it
    except ImportError:
        raise MissingExtra("writing per-case rows as Parquet", "eval") from None
    make_folder(folder)
    return folder


def _groups_of_both(dataset: Dataset, calibrate: Dataset | None, by: Sequence[str]) -> dict[str, list[str]]:
    """Groups of the cases and then of those that calibrate, which may not state every field."""
    if calibrate is None:
        return {entry: evaluation.groups_of(dataset, entry) for entry in by}
    both = replace(dataset, cases=(*dataset.cases, *calibrate.cases))
    stated = {name for case in calibrate.cases for name in case.fields}
    kept = [entry for entry in by if {part.strip() for part in entry.split("*")} <= stated]
    return {entry: evaluation.groups_of(both, entry) for entry in kept}


def _refuse_known(texts: Sequence[str], dataset: Dataset | None, where: str) -> None:
    known = {plain(t) for t in texts}
    if shared := sum(plain(t) in known for t in (dataset.texts if dataset is not None else ())):
        raise BadInput(f"{shared} evaluated cases are also {where}: separate them")
