"""Two runs on the same cases: the paired bootstrap, whatever the order of rows and labels."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simdx.errors import BadInput
from simdx.evaluation import METRICS, Run, paired
from simdx.metrics import headline_values, paired_bootstrap
from tests.cli.conftest import Cli

LABELS = ("a", "b", "c")


def run(name: str, sharp: float, seed: int) -> Run:
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 3
    score = np.random.default_rng(0).normal(size=(60, 3)) + rng.normal(size=(60, 3)) + sharp * np.eye(3)[y]
    p = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    return Run(name, tuple(f"case-{i}" for i in range(60)), tuple(LABELS[k] for k in y), LABELS, p)


def test_differences_are_those_of_the_paired_bootstrap() -> None:
    one, two = run("one", 1.0, 1), run("two", 2.5, 2)
    order = np.random.default_rng(3).permutation(60)
    shuffled = Run(
        "two", tuple(two.ids[i] for i in order), tuple(two.truth[i] for i in order), ("c", "a", "b"),
        two.posterior[order][:, [2, 0, 1]],
    )  # fmt: skip
    found = paired(one, shuffled, resamples=500, seed=4)
    y = np.arange(60) % 3
    expected = paired_bootstrap(
        one.posterior, two.posterior, y, metrics=METRICS, resamples=500, rng=np.random.default_rng(4)
    )
    for name in METRICS:
        values = [headline_values(r.posterior, y)[name].value for r in (one, two)]
        assert [found["first"][name], found["second"][name]] == pytest.approx(values)
        assert found["difference"][name]["low"] == pytest.approx(expected[name].low)
        assert found["difference"][name]["p_value"] == pytest.approx(expected[name].p_value)
    assert found["difference"]["accuracy"]["low"] > 0


def test_runs_that_cannot_be_compared() -> None:
    one = run("one", 1.0, 1)
    others = {
        "different labels": Run("x", one.ids, one.truth, ("a", "b", "d"), one.posterior),
        "same cases": Run("x", ("new", *one.ids[1:]), one.truth, LABELS, one.posterior),
        "ids other labels": Run("x", one.ids, one.truth[::-1], LABELS, one.posterior),
    }
    for said, other in others.items():
        with pytest.raises(BadInput, match=said):
            paired(one, other, resamples=100)


def test_the_command_line(cli: Cli, tmp_path: Path) -> None:
    data = tmp_path / "cases.csv"
    texts = {"oral mucocele": "a bluish swelling", "atrophic glossitis": "a smooth red tongue"}
    data.write_text("text,label\n" + "".join(f"{text},{label}\n" for label, text in texts.items()), "utf-8")
    how = ("--panel", "oral-lesions", "--data", data, "--resamples", 100, "--json")
    beside = cli("evaluate", *how, "--compare", "tfidf,centroid", "--out", tmp_path / "auto").json["compare"]
    found = [(b["first"]["run"], b["second"]["run"], b["n"]) for b in beside]
    assert found == [("auto", "tfidf", 2), ("auto", "centroid", 2)]
    cli("evaluate", *how, "--method", "tfidf", "--out", tmp_path / "tfidf")
    found = cli("compare", tmp_path / "auto", tmp_path / "tfidf", "--resamples", 1000, "--json").json
    assert found["difference"] == beside[0]["difference"]
    assert "difference" in cli("compare", tmp_path / "auto", tmp_path / "tfidf", "--resamples", 100).out
    assert "no cases.parquet" in cli("compare", tmp_path, tmp_path / "auto").complaint
    pq.write_table(pa.table({"id": ["a"], "label": ["b"]}), tmp_path / "cases.parquet")
    assert "not a table of answers" in cli("compare", tmp_path, tmp_path / "auto").complaint
