"""Evaluation end to end on the packaged benchmark with the embedder that needs no weights."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from simdx.classifier import Classifier
from simdx.datasets import load_oral
from simdx.errors import BadInput
from simdx.evaluate import evaluate
from simdx.metrics import HEADLINE, headline_values
from simdx.runs import PARTS, Store

CONTRACT = {
    "n", "k", "method", "engine", "embedder", "accuracy", "macro_f1", "brier", "ece", "nll", "entropy_bits",
    "auroc", "error_auroc", "aurc", "e_aurc", "risk_at_80", "ci", "ood", "alarm", "groups",
}  # fmt: skip


@pytest.fixture(scope="module")
def classifier():
    return Classifier("oral-lesions", embedder="hashing")


@pytest.fixture(scope="module")
def bench():
    whole = load_oral()
    chosen = [i for start in (0, 100, 200) for i in range(start, start + 20)]
    return replace(whole, cases=whole.cases.subset(chosen), ood=whole.ood.subset(range(30)))


@pytest.fixture(scope="module")
def result(classifier, bench):
    return evaluate(classifier, bench.cases, ood=bench.ood, by=["sex", "age"], resamples=200)


def test_the_record_has_every_key_of_the_contract(result):
    record, found = result.to_json(), result.record["ood"]
    assert set(record) >= CONTRACT
    assert set(record["ci"]) == set(HEADLINE)
    assert set(found) >= {"n", "score", "auroc", "entropy_bits", "by"}
    for where, side in (("outside", result.ood_arrays), ("inside", result.arrays)):
        assert found[f"mean_{where}"] == pytest.approx(side["out_of_class"].mean())
        key = "answered_none" if where == "outside" else "answered_none_inside"
        assert found[key] == (side["posterior"].argmax(axis=1) == 3).mean()
        np.testing.assert_array_equal(side["posterior"][:, 3], side["out_of_class"])
    assert found["ci"]["mean_inside"][1] < found["ci"]["mean_outside"][0]
    assert found["answered_none"] > 0.5 > 0.1 > found["answered_none_inside"] > 0
    assert set(found["by"]) == {"near", "far"}
    assert found["by"]["near"].keys() >= {"n", "auroc"}
    assert record["groups"]["sex"]["female"].keys() >= {"n", "accuracy", "ece", "ci", "too_small"}
    bands = record["groups"]["age"]
    assert [name[:2] for name in bands] == ["Q1", "Q2", "Q3", "Q4"]
    assert sum(g["n"] for g in bands.values()) == record["n"] == 60
    assert (record["k"], record["accuracy_at"], record["differential"]) == (
        3,
        None,
        None,
    )  # and none is given
    json.dumps(record, allow_nan=False)


def test_metrics_are_those_of_the_classifiers_own_probabilities(result, classifier, bench):
    p = classifier.predict_proba(bench.cases.texts)
    y = [list(classifier.panel.names).index(c.label) for c in bench.cases.cases]
    for name, value in headline_values(p, np.array(y), labels=3).items():
        assert result.record[name] == pytest.approx(value.value, abs=1e-6), name
    gold = np.array([case.label for case in bench.cases.cases], dtype=object)
    assert result.record["accuracy"] == np.mean(classifier.predict(bench.cases.texts) == gold)


def test_closed_gives_the_labels_alone(result, classifier, bench):
    closed = Classifier("oral-lesions", embedder=classifier.embedder, closed=True)
    found = evaluate(closed, bench.cases, ood=bench.ood, resamples=200)
    np.testing.assert_allclose(found.arrays["posterior"], result.arrays["among_labels"], atol=1e-9)
    assert found.record["accuracy"] == result.record["among_labels"]["accuracy"] > result.record["accuracy"]
    assert found.record["ece"] == pytest.approx(result.record["among_labels"]["ece"])
    assert (found.record["ood"]["mean_outside"], found.record["ood"]["answered_none"]) == (None, None)
    assert found.record["decisions"]["accept"]["n"] == 0


def test_rows_agree_with_the_record_and_hold_no_text(result, bench):
    rows = result.rows()
    assert np.mean(rows["correct"]) == pytest.approx(result.record["accuracy"])
    for name, outcomes in (("posterior", result.outcomes), ("among_labels", result.labels)):
        np.testing.assert_allclose(sum(np.array(rows[f"{name}.{outcome}"]) for outcome in outcomes), 1)
    assert set(rows["predicted"]) == {*result.labels, "none of these"}
    assert "text" not in rows
    flat = json.dumps(rows) + json.dumps(result.record) + json.dumps(result.curves)
    assert not any(case.text[:60] in flat for case in bench.cases.cases)
    p, worst = result.arrays["posterior"], result.worst(5)
    assert worst
    assert not any(rows["correct"][i] for i in worst)
    assert [p[i].max() for i in worst] == sorted((p[i].max() for i in worst), reverse=True)


def test_files_report_and_resumption(classifier, bench, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    first = evaluate(classifier, bench.cases, ood=bench.ood, out=out, resamples=200)
    assert pq.read_table(out / "cases.parquet").num_rows == 60
    assert pq.read_table(out / "ood.parquet").num_rows == 30
    written = json.loads((out / "metrics.json").read_text("utf-8"))
    assert {key: written[key] for key in first.record} == json.loads(json.dumps(first.record))
    assert Store(out, "").read("metrics").identity  # sealed, like every other record
    assert sum(map(sum, written["curves"]["confusion"]["counts"])) == 60
    page = (out / "report.html").read_text("utf-8")
    for heading in ("Calibration", "Selective", "Confusion", "Entropy", "Simplex", "Worst confident"):
        assert heading in page
    # What a drawing refers to lies in the page itself.
    assert not re.search(r"""(src|href)\s*=\s*["']?(?!#)|url\((?!#)|<script""", page.replace('href="#', "#"))
    assert first.dataset.cases[first.worst(1)[0]].id in page
    assert not any(case.text[:60] in page for case in bench.cases.cases)

    def refuse(*_args, **_kwargs):
        raise AssertionError("a finished chunk was computed again")

    monkeypatch.setattr(classifier, "infer_batch_observed", refuse)
    again = evaluate(classifier, bench.cases, ood=bench.ood, out=out, by=["sex"], resamples=200)
    assert again.record["brier"] == first.record["brier"]
    with pytest.raises(AssertionError):
        evaluate(classifier, bench.cases, out=out, resume=False, resamples=200)


def test_another_prior_is_another_run_and_texts_are_quoted_where_asked_for(classifier, bench, tmp_path):
    result = evaluate(classifier, bench.cases, out=tmp_path, show_texts=True, resamples=100)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert result.dataset.cases[result.worst(1)[0]].id in page
    assert "<blockquote>" in page
    (before,) = (tmp_path / PARTS).iterdir()
    evaluate(classifier, bench.cases, out=tmp_path, prior={"oral mucocele": 0.8}, resamples=100)
    (after,) = (tmp_path / PARTS).iterdir()
    assert before.name != after.name


def test_a_temperature_is_fitted_on_other_cases_only(classifier, bench):
    whole = load_oral().cases
    held = whole.subset([i for start in (40, 140, 240) for i in range(start, start + 30)])
    plain = evaluate(classifier, bench.cases, resamples=100)
    scaled = evaluate(classifier, bench.cases, calibrate=held, resamples=100)
    assert scaled.record["temperature"]["n"] == 90
    assert scaled.record["temperature"]["nll_after"] <= scaled.record["temperature"]["nll_before"]
    assert scaled.record["accuracy"] == plain.record["accuracy"]
    assert scaled.record["nll"] != plain.record["nll"]
    with pytest.raises(BadInput, match="60 evaluated cases are also in the calibration set"):
        evaluate(classifier, bench.cases, calibrate=bench.cases, resamples=100)


def test_one_label_and_no_errors_are_stated_not_crashed_on(classifier, bench, tmp_path):
    good = evaluate(classifier, bench.cases, resamples=100)
    right = [i for i, ok in enumerate(good.rows()["correct"]) if ok and good.label_index[i] == 0][:5]
    found = evaluate(classifier, bench.cases.subset(right), out=tmp_path, resamples=100)
    assert (found.record["accuracy"], found.record["auroc"], found.record["error_auroc"]) == (1, None, None)
    assert {"auroc", "error_auroc"} <= set(found.record["undefined"])
    assert "No case was misclassified" in (tmp_path / "report.html").read_text("utf-8")


def test_answers_come_in_chunks_that_are_computed_once_and_outlive_a_run_that_dies(tmp_path):
    """Damaged ones are computed again: tests/faults/test_corruption.py."""
    calls, seen, dying = [], [], [False]

    def compute(part):
        if dying[0] and len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(len(part))
        return {"length": np.array([float(len(t)) for t in part])}

    def answers(name, **how):
        return Store(tmp_path).answers(name, texts, compute, size=10, **how)["length"]

    texts = [str(i) * (i % 7 + 1) for i in range(25)]
    whole = answers("run", progress=lambda *done: seen.append(done))
    np.testing.assert_array_equal(whole, [len(t) for t in texts])
    sorted(tmp_path.rglob("*.safetensors"))[1].unlink()
    np.testing.assert_array_equal(answers("run"), whole)
    assert (calls, seen) == ([10, 10, 5, 10], [(10, 25), (20, 25), (25, 25)])
    calls.clear()
    dying[0] = True
    with pytest.raises(KeyboardInterrupt):
        answers("other")
    calls.clear()
    np.testing.assert_array_equal(answers("other"), whole)
    assert calls == [5]


def test_a_case_is_told_among_its_own_options(classifier, bench, tmp_path):
    names = classifier.panel.names

    def case_of(case, options):
        return replace(case, fields={**case.fields, "options": options})

    def found(*cases):
        chosen = replace(bench.cases, cases=cases)
        return evaluate(classifier, chosen, options="options", resamples=200, out=tmp_path).arrays

    cases = [
        case_of(case, [case.label, next(n for n in names if n != case.label)] if i % 2 else " | ".join(names))
        for i, case in enumerate(bench.cases.cases)
    ]
    arrays, whole = found(*cases), classifier.infer_batch(bench.cases.texts)
    for i, case in enumerate(cases):
        inside = np.array([name in case.fields["options"] for name in names])
        assert arrays["posterior"][i, :3][~inside].sum() == 0
        pair = whole.among_labels[i] * inside
        assert arrays["among_labels"][i] == pytest.approx(pair / pair.sum(), abs=1e-6)
        if inside.all():
            assert arrays["posterior"][i] == pytest.approx(whole.posterior[i], abs=1e-6)
    again = found(cases[0], case_of(cases[1], list(names)), *cases[2:])
    assert again["posterior"][1].min() > 0  # a chunk made for other options is not taken
    own = cases[0].label
    for bad in ([own], ["apple", own], 7, [name for name in names if name != own]):
        with pytest.raises(BadInput, match=r"option|labels"):
            found(case_of(cases[0], bad))
