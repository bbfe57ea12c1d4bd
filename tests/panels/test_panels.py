"""Panels: the packaged ones are sound, a user's own is read strictly, and mistakes are named."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simdx.bank import packaged_bank
from simdx.bank.plan import facets_of, generic_facets
from simdx.bank.proposals import write_descriptions
from simdx.cli.options import go_fast
from simdx.decide.policy import Thresholds
from simdx.errors import BadInput
from simdx.panels import PACKAGED, advice_for, load_panel, load_source, problems_of
from simdx.panels.load import scaffold


def write(folder: Path, text: str, name: str = "p.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_panels_are_complete(name: str) -> None:
    source = load_source(name)
    assert source.panel.name == name
    assert problems_of(source.folder / "panel.yaml") == []
    assert advice_for(source.panel) == []
    assert "no clinician" in source.panel.notice
    bank = packaged_bank(source)
    assert min(bank.counts.values()) >= 40
    assert len(bank.background) >= 100
    assert len(source.panel.examples) == 3
    for example in source.panel.examples:
        assert example.text not in {*bank.texts, *bank.background}
        # A text that says its label would show nothing of how the panel works.
        assert not any(label.casefold() in example.text.casefold() for label in source.panel.names)


def test_a_minimal_panel_needs_only_label_names_and_prose_changes_no_identity(tmp_path: Path) -> None:
    plain = load_panel(write(tmp_path, "labels: [{name: a}, b]\n"))
    assert (plain.name, plain.names, plain.embedder, plain.examples) == ("p", ("a", "b"), "wordllama", ())
    same = load_panel(write(tmp_path, "labels: [a, b]\ntitle: one", "x.yaml"))
    other = load_panel(write(tmp_path, "labels: [b, a]", "z.yaml"))
    assert plain.hash == same.hash != other.hash
    text = "labels: [a, b]\nexamples: [{title: short, text: '  Red, round. '}]\n"
    shown = load_panel(write(tmp_path, text, "q.yaml"))
    assert [(e.title, e.text) for e in shown.examples] == [("short", "Red, round.")]
    assert shown.hash == plain.hash
    for wrong in ("[{title: t}]", "[{title: '', text: x}]", "[{title: t, text: ' '}]", "[plain text]"):
        with pytest.raises(BadInput, match="examples"):
            load_panel(write(tmp_path, f"labels: [a, b]\nexamples: {wrong}\n"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("labels: [a]", "at least two labels"),
        ("labels: [a, A]", "more than once"),
        ("labels: ['  ', b]", "label 1 has no name"),
        ("labels: [a, {name: ''}]", "label 2 has no name"),
        ("labels: [a, {name: b, colour: red}]", "colour"),
        ("labels: [a, b]\nregister: shouting", "register"),
        ("labels: [a, b", "not valid YAML"),
        ("- a\n- b", "no mapping"),
        ("labels: &x [a, b]\nfacets: {f: *x}", "aliases"),
        ("labels: [a, b]\nbanks: [gone.jsonl]", "gone.jsonl"),
        ("", "no mapping"),
    ],
)
def test_a_bad_panel_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        load_panel(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert problems_of(path)
    path.write_bytes(b"labels: [caf\xe9, b]")
    with pytest.raises(BadInput, match="not UTF-8"):
        load_panel(path)
    with pytest.raises(BadInput, match="oral-lesions"):  # the known ones are named
        load_panel("no-such-panel")


def test_the_scaffold_says_what_the_policy_and_the_facets_do(tmp_path: Path) -> None:
    text = scaffold("mine", dict.fromkeys("ab", ""))
    share = Thresholds().must_not_miss
    assert f"true asks for more tests when this label has {100 * share:.0f} % or more without leading" in text
    named = text.replace("# facets:", "facets:").replace("#   site:", "  site:")
    panel = load_panel(write(tmp_path, named))
    assert panel.facets == {"site": ("hand", "foot")}
    assert set(facets_of(panel)) == {*generic_facets(panel), "site"}  # beside the built-in ones
    # What a field means is said once, and a file is found without its ending.
    assert text.count("true asks for more tests") == 1 < text.count("must_not_miss:")
    assert load_panel(write(tmp_path, text).with_suffix("")).names == ("a", "b")
    # A panel that is not about illness is offered no codes.
    text = scaffold("mine", {"delivery": "", "billing": ""}, "general")
    assert not any(word in text for word in ("icd10", "snomed", "hand, foot"))
    named = text.replace("# facets:", "facets:").replace("#   channel:", "  channel:")
    panel = load_panel(write(tmp_path, named))
    assert panel.names == ("delivery", "billing")
    assert panel.facets == {"channel": ("letter", "telephone")}


WAYS = {
    "scaffolded": None,
    "bare names": "# mine\nlabels: [gout, mumps]  # two\n",
    "block": "labels:\n  - name: gout\n    aliases: [podagra]  # old\n  - {name: mumps, description: jaw}\n",
    "flow": 'labels:\n  - {name: gout, aliases: ["podagra"]}\n  - {name: mumps, description: swollen jaw}\n',
    "list": "labels:\n- gout\n- name: mumps\n  description: ''\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_descriptions_are_put_into_a_panel_file_and_nothing_else_changes(way: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(WAYS[way] or scaffold("p", {"gout": "", "mumps": "swollen jaw"}), encoding="utf-8")
    before, lines = load_panel(path), path.read_text().splitlines()
    line = 'Red "hot" toe: sudden, at night; x.'
    write_descriptions(path, {"gout": line})
    after = load_panel(path)
    assert after.labels[0] == replace(before.labels[0], description=line)
    assert after.labels[1:] == before.labels[1:]
    comments = [text.partition("#")[2] for text in lines if "#" in text]
    assert all(comment in path.read_text() for comment in comments)
    assert [p.name for p in tmp_path.iterdir()] == ["p.yaml"]


@pytest.mark.parametrize(
    "twin",
    [
        "cafe\u0301", "caf\u200b\u00e9", "\u202ecaf\u00e9\u202c", "caf\u00e9\ufeff", "c\u00adaf\u00e9",
        "CAFE\u0301",
        "\uff43af\u00e9", "caf\u00e9\ufe0f", "ca\u034ff\u00e9", "\u2066caf\u00e9\u2069",
    ],
)  # fmt: skip
def test_labels_that_look_alike_are_refused(tmp_path: Path, twin: str) -> None:
    path = tmp_path / "panel.yaml"
    path.write_text(json.dumps({"labels": ["caf\u00e9", "tea", twin]}), "utf-8")
    with pytest.raises(BadInput, match=r"look alike|occurs more than once") as raised:
        load_panel(path)
    assert "\n" not in str(raised.value)
    path.write_text(json.dumps({"labels": ["caf\u00e9", "cafe", "caff\u00e9"]}), "utf-8")
    assert len(load_panel(path).names) == 3


# --------------------------------------------------------------------------- the second expert


def test_a_users_own_panel_hears_it_where_it_is_installed(
    tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SIMDX_FAST")
    (private_home / "models" / "minilm").mkdir(parents=True)
    file = write(tmp_path, "labels: [migraine, tension headache]\n")
    go_fast(False)
    assert load_panel(file).embedder == "wordllama+minilm"
    assert {load_panel(name).embedder for name in PACKAGED} == {"wordllama"}
    monkeypatch.setenv("SIMDX_FAST", "")  # and is unset in the end
    go_fast(True)
    assert load_panel(file).embedder == "wordllama"
    monkeypatch.setenv("SIMDX_FAST", "")
    (private_home / "models" / "minilm").rmdir()
    assert load_panel(file).embedder == "wordllama"
    file.write_text("embedder: hashing\n" + file.read_text())
    assert load_panel(file).embedder == "hashing"
