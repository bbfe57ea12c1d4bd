"""Policies, class rules, review forms and network cards: read or refused, nothing else."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simdx.amortised.network import load
from simdx.datasets.multicare import read_rule
from simdx.decide.policy import check_policy, policy_text, read_policy
from simdx.errors import BadInput
from simdx.panels import load_source
from simdx.panels.rules import matching, pattern_problem
from simdx.review.forms import read_scores
from simdx.types import ReviewRule
from tests.properties.strategies import accepted, bounded, broken_texts, texts, trees

SOURCE = load_source("oral-lesions")
POLICY = yaml.safe_load((SOURCE.folder / "policy.yaml").read_text("utf-8"))
READERS = (read_policy, read_rule)


@bounded
@given(st.binary(max_size=300))
def test_any_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    for read in READERS:
        accepted(lambda read=read: read(path))
    (tmp_path / "network.safetensors").write_bytes(data)
    accepted(lambda: load(tmp_path))
    accepted(lambda: read_scores(path))


@bounded
@given(trees, st.data())
def test_any_value_anywhere(tmp_path: Path, tree: object, data: st.DataObject) -> None:
    path = tmp_path / "f.yaml"
    key = data.draw(st.sampled_from(sorted(POLICY)))
    path.write_text(yaml.safe_dump({**POLICY, key: tree}, allow_unicode=True), encoding="utf-8")
    accepted(lambda: read_policy(path))
    policy = accepted(lambda: check_policy({**POLICY, "thresholds": tree}, "f", SOURCE.panel))
    if policy is not None:
        assert check_policy(yaml.safe_load(policy_text(policy)), "f") == policy


@bounded
@given(broken_texts)
def test_half_characters_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(json.dumps({**POLICY, "panel": text}))
    for read in READERS:
        with pytest.raises(BadInput):
            read(path)


@bounded
@given(st.text(st.sampled_from(r"abz01 .*+?{},()[]|\^$-dwsbBZ"), max_size=40), texts)
def test_a_pattern_is_safe_or_refused(pattern: str, text: str) -> None:
    if pattern_problem(pattern) is None:
        matching([ReviewRule("r", pattern=pattern)], text)


@bounded
@given(st.lists(texts, max_size=3).map(tuple), texts)
def test_phrases_of_any_script(phrases: tuple[str, ...], text: str) -> None:
    found = matching([ReviewRule("r", phrases=tuple(p for p in phrases if p.strip()))], text)
    assert len(found) <= 1


@bounded
@given(trees)
def test_any_stored_scores(tmp_path: Path, tree: object) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps(tree) + "\n", encoding="utf-8")
    accepted(lambda: read_scores(path))
