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
    record = result.to_json()
    assert set(record) >= CONTRACT
    assert set(record["ci"]) == set(HEADLINE)
    assert set(record["ood"]) >= {"n", "score", "auroc", "entropy_bits", "by"}
    assert record["ood"]["mean_inside"] == pytest.approx(result.arrays["out_of_class"].mean())
    assert record["ood"]["mean_outside"] == pytest.approx(result.ood_arrays["out_of_class"].mean())
    assert record["ood"]["mean_inside"] < record["ood"]["mean_outside"]
    assert record["ood"]["ci"]["mean_inside"][1] < record["ood"]["ci"]["mean_outside"][0]
    found, arrays = record["ood"], result.arrays
    for key, side in (("answered_none", result.ood_arrays), ("answered_none_inside", arrays)):
        assert found[key] == (side["posterior"].argmax(axis=1) == 3).mean()
        np.testing.assert_array_equal(side["posterior"][:, 3], side["out_of_class"])
    assert found["answered_none"] > 0.5 > 0.1 > found["answered_none_inside"] > 0
    assert set(record["ood"]["by"]) == {"near", "far"}
    assert record["ood"]["by"]["near"].keys() >= {"n", "auroc"}
    female = record["groups"]["sex"]["female"]
    assert female.keys() >= {"n", "accuracy", "ece", "ci", "too_small"}
    assert (record["n"], record["k"]) == (60, 3)
    assert (record["accuracy_at"], record["differential"]) == (None, None)  # three labels, and none is given
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


def test_ages_are_grouped_into_four_bands(result):
    bands = result.record["groups"]["age"]
    assert [name[:2] for name in bands] == ["Q1", "Q2", "Q3", "Q4"]
    assert sum(g["n"] for g in bands.values()) == 60


def test_rows_agree_with_the_record_and_hold_no_text(result, bench):
    rows = result.rows()
    assert np.mean(rows["correct"]) == pytest.approx(result.record["accuracy"])
    total = sum(np.array(rows[f"posterior.{label}"]) for label in result.outcomes)
    np.testing.assert_allclose(total, 1)
    np.testing.assert_allclose(sum(np.array(rows[f"among_labels.{label}"]) for label in result.labels), 1)
    assert set(rows["predicted"]) == {*result.labels, "none of these"}
    assert "text" not in rows
    flat = json.dumps(rows) + json.dumps(result.record) + json.dumps(result.curves)
    assert not any(case.text[:60] in flat for case in bench.cases.cases)


def test_worst_errors_are_wrong_and_ordered_by_confidence(result):
    p = result.arrays["posterior"]
    worst = result.worst(5)
    assert worst
    assert all(p[i].argmax() != result.label_index[i] for i in worst)
    confidence = [p[i].max() for i in worst]
    assert confidence == sorted(confidence, reverse=True)


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


def test_texts_are_quoted_only_when_asked_for(classifier, bench, tmp_path):
    result = evaluate(classifier, bench.cases, out=tmp_path, show_texts=True, resamples=100)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert result.dataset.cases[result.worst(1)[0]].id in page
    assert "<blockquote>" in page


def test_another_prior_is_another_run(classifier, bench, tmp_path):
    evaluate(classifier, bench.cases, out=tmp_path, resamples=100)
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


def test_answers_come_in_chunks_that_are_computed_once(tmp_path):
    """Damaged ones are computed again: tests/faults/test_corruption.py."""
    calls, seen = [], []

    def compute(part):
        calls.append(len(part))
        return {"length": np.array([float(len(t)) for t in part])}

    texts = [str(i) * (i % 7 + 1) for i in range(25)]
    whole = Store(tmp_path).answers("run", texts, compute, size=10, progress=lambda d, t: seen.append((d, t)))
    np.testing.assert_array_equal(whole["length"], [len(t) for t in texts])
    sorted(tmp_path.rglob("*.safetensors"))[1].unlink()
    again = Store(tmp_path).answers("run", texts, compute, size=10)
    np.testing.assert_array_equal(again["length"], whole["length"])
    assert (calls, seen) == ([10, 10, 5, 10], [(10, 25), (20, 25), (25, 25)])


def test_a_run_that_dies_keeps_its_finished_chunks(tmp_path):
    calls = []

    def compute(part):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(part)
        return {"x": np.ones(len(part))}

    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path).answers("run", list("abcdef"), compute, size=2)
    calls.clear()
    assert len(Store(tmp_path).answers("run", list("abcdef"), compute, size=2)["x"]) == 6
    assert len(calls) == 1


def test_a_case_is_told_among_its_own_options(classifier, bench, tmp_path):
    names = classifier.panel.names
    cases = []
    for i, case in enumerate(bench.cases.cases):
        other = next(name for name in names if name != case.label)
        options = [case.label, other] if i % 2 else " | ".join(names)
        cases.append(replace(case, fields={**case.fields, "options": options}))
    asked = replace(bench.cases, cases=tuple(cases))
    found = evaluate(classifier, asked, options="options", resamples=200, out=tmp_path)
    whole = classifier.infer_batch(asked.texts)
    p = found.arrays["posterior"]
    for i, case in enumerate(cases):
        inside = [name in case.fields["options"] for name in names]
        assert p[i, :3][~np.array(inside)].sum() == 0
        if i % 2:
            pair = whole.among_labels[i] * inside
            assert found.arrays["among_labels"][i] == pytest.approx(pair / pair.sum(), abs=1e-6)
        else:
            assert p[i] == pytest.approx(whole.posterior[i], abs=1e-6)
    changed = replace(cases[1], fields={**cases[1].fields, "options": list(names)})
    other = replace(asked, cases=(cases[0], changed, *cases[2:]))
    again = evaluate(classifier, other, options="options", resamples=200, out=tmp_path)
    assert again.arrays["posterior"][1].min() > 0  # a chunk made for other options is not taken
    for bad in ([cases[0].label], ["apple", cases[0].label], 7, [n for n in names if n != cases[0].label]):
        one = replace(asked, cases=(replace(cases[0], fields={"options": bad}),))
        with pytest.raises(BadInput, match=r"option|labels"):
            evaluate(classifier, one, options="options")
