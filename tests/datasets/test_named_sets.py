"""The packaged benchmark, Symptom-to-Diagnosis in both its formats, and MultiCaRe's release files."""

import json
import socket
from importlib.resources import files

import pytest

from simdx.datasets import load_multicare, load_oral, load_symptoms, named, read_rule
from simdx.errors import BadInput, RunFailed


def test_oral_is_what_its_datasheet_says():
    bench = load_oral()
    assert bench.cases.counts() == dict.fromkeys(named.ORAL_LABELS, 100)
    assert len(bench.ood.cases) == 65
    assert set(bench.ood.field("distance")) == {"near", "far"}
    assert set(bench.cases.field("difficulty")) == {"classic", "atypical", "ambiguous"}
    assert "no clinician" in bench.cases.notice
    sheet = (files("simdx.datasets") / "data" / "oral" / "DATASHEET.md").read_text(encoding="utf-8")
    carcinoma = [c for c in bench.cases.cases if c.label == named.ORAL_LABELS[0]]
    atypical = [c.fields["sex"] for c in carcinoma if c.fields["difficulty"] == "atypical"]
    assert f"{atypical.count('female')} of its {len(atypical)} atypical cases are women" in sheet
    assert "No clinician has reviewed it" in sheet


def test_symptoms_in_the_hubs_own_format(tmp_path):
    rows = [
        {"input_text": "i wheeze", "output_text": "Bronchial Asthma"},
        {"input_text": "my neck", "output_text": "cervical spondylitis"},
        {"input_text": "i itch", "output_text": "psoriasis"},
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test.jsonl").write_text(json.dumps({"input_text": "yellow", "output_text": "jaundice"}))
    bench = load_symptoms(tmp_path)
    assert [(c.id, c.label) for c in bench.cases.cases] == [
        ("sd-train-0000", "bronchial asthma"),
        ("sd-train-0001", "cervical spondylosis"),
        ("sd-test-0000", "jaundice"),
    ]
    assert [(c.id, c.fields["topic"]) for c in bench.ood.cases] == [("sd-train-0002", "psoriasis")]
    assert [c.fields["split"] for c in bench.cases.cases] == ["train", "train", "test"]


def test_symptoms_that_cannot_be_read_fail_at_once(tmp_path, monkeypatch):
    (tmp_path / "train.jsonl").write_text('{"input_text": "a", "output_text": "dengue"}\n{"input_text": "b"}')
    with pytest.raises(BadInput, match=r"train\.jsonl, line 2: no column 'output_text'"):
        load_symptoms(tmp_path)
    (tmp_path / "train.jsonl").unlink()
    with pytest.raises(BadInput, match="neither"):
        load_symptoms(tmp_path)

    def no_network(*_args, **_kwargs):
        raise socket.gaierror("no name service")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(RunFailed, match="give a local copy"):
        load_symptoms()


LONG = "A man of fifty came with fever and weight loss over several weeks. " * 6


@pytest.fixture
def release(tmp_path):
    """The shape of the Zenodo release: nested columns, one row per article."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    titles = {
        "PMC1": "Miliary tuberculosis in a farmer", "PMC2": "Cerebral malaria after travel",
        "PMC3": "Lymphoma and tuberculosis in one patient", "PMC4": "A broken wrist",
        "PMC5": "Sarcoidosis mimicking tuberculosis", "PMC6": "Tuberculosis of the spine",
    }  # fmt: skip
    about = {"keywords": ["case"], "mesh_terms": None, "license": "CC BY", "year": "2020"}
    articles = [{"article_id": k, "article_metadata": {"title": t, **about}} for k, t in titles.items()]
    texts = dict.fromkeys(titles, f"Case presentation:\n{LONG} Tuberculosis was found.")
    texts["PMC6"] = "Too short."
    told = {"age": 50, "gender": "Male"}
    cases = [
        {"article_id": k, "cases": [{"case_id": f"{k}_01", "case_text": text, **told}]}
        for k, text in texts.items()
    ]
    cases[0]["cases"].append({**cases[0]["cases"][0], "case_id": "PMC1_02"})
    pq.write_table(pa.Table.from_pylist(articles), tmp_path / "metadata.parquet")
    pq.write_table(pa.Table.from_pylist(cases), tmp_path / "cases.parquet")
    return tmp_path


def test_multicare_labels_cleans_and_counts_what_it_drops(release):
    made = load_multicare(release / "cases.parquet", release / "metadata.parquet")
    found = {c.id: c.label for c in made.benchmark.cases.cases}
    assert found == {"PMC2_01": "malaria", "PMC1_01": "tuberculosis"}
    assert [c.id for c in made.benchmark.ood.cases] == ["PMC4_01"]
    assert made.dropped == {"further case of an article": 1, "ambiguous or excluded title": 2, "too short": 1}
    case = made.benchmark.cases.cases[0]
    assert "uberculosis" not in case.text
    assert "Case presentation" not in case.text
    assert case.fields == {"age": 50, "sex": "Male", "article": "PMC2", "license": "CC BY", "year": "2020"}


def test_a_rule_of_ones_own_and_broken_ones(release, tmp_path):
    rule = tmp_path / "rule.yaml"
    rule.write_text("labels:\n  wrist: {title: ['wrist']}\n  travel: {title: ['travel'], names: ['fever']}\n")
    made = load_multicare(release / "cases.parquet", release / "metadata.parquet", rule=read_rule(rule))
    assert made.benchmark.cases.counts() == {"wrist": 1, "travel": 1}
    assert "fever" not in made.benchmark.cases.cases[0].text
    broken = ("labels: {a: {title: ['(']}, b: {}}", "labels: {a: {}}", "- 1", "labels: {a: {x: 1}, b: {}}")
    for content in broken:
        rule.write_text(content)
        with pytest.raises(BadInput):
            read_rule(rule)


def test_flat_columns_are_read_too_and_headers_stripped(tmp_path):
    text = "Introduction\nA case.\n2.1 Physical examination:\nThe history was long.\n"
    text += "Discussion.\nDone with malaria."
    assert named.clean(text, read_rule().names) == "A case.\nThe history was long.\nDone with […]."
    (tmp_path / "cases.csv").write_text(f'case_id,pmcid,case_text\nPMC9_01,PMC9,"{LONG}"\n')
    (tmp_path / "metadata.csv").write_text("pmcid,title,keywords\nPMC9,Aortic aneurysm,\"['aorta']\"\n")
    made = load_multicare(tmp_path / "cases.csv", tmp_path / "metadata.csv")
    assert made.benchmark.cases.counts()["aneurysm"] == 1
