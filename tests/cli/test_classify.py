"""`simdx classify`: the contract's keys, priors, and one clear line for every kind of bad input."""

import io
import json
import math
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

CASE = "A painless bluish fluctuant swelling of the lower lip after a bite, it bursts and comes back."
ORAL = ("--panel", "oral-lesions")
LABELS = ["oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis"]

KEYS = {
    "panel", "method", "engine", "label", "posterior", "among_labels", "entropy_bits", "second_order",
    "typicality", "out_of_class", "alarm", "conformal_set", "effective_simulations", "decision", "evidence",
    "sentences", "flip", "provenance",
}  # fmt: skip
PROVENANCE = {
    "bank", "embedder", "prior", "alpha0", "kernel", "tolerance", "seed", "version", "remote",
}  # fmt: skip


def check_answer(a: dict) -> None:
    assert set(a) >= KEYS
    assert set(a["provenance"]) >= PROVENANCE
    p = a["posterior"]
    assert math.isclose(sum(p.values()), 1, abs_tol=1e-6)
    assert all(0 <= v <= 1 for v in p.values())
    assert a["label"] == max(p, key=p.__getitem__)
    among, out = a["among_labels"], a["out_of_class"]
    weighed = {} if out is None else {"none of these": out}
    assert list(p) == [*among, *weighed]
    for outcome, share in ({label: (1 - (out or 0)) * q for label, q in among.items()} | weighed).items():
        assert math.isclose(p[outcome], share, abs_tol=1e-6)
    assert math.isclose(sum(among.values()), 1, abs_tol=1e-6)
    entropy = -sum(v * math.log2(v) for v in p.values() if v > 0)
    assert math.isclose(a["entropy_bits"], entropy, abs_tol=1e-6)
    assert a["decision"]["action"] in ("accept", "likely", "test", "review")
    second = a["second_order"]
    if second is not None:
        assert math.isclose(
            second["total_bits"], second["aleatoric_bits"] + second["epistemic_bits"], abs_tol=1e-6
        )


@pytest.mark.parametrize("panel", ["oral-lesions", "symptom-to-diagnosis", "case-reports"])
def test_the_contract_on_every_packaged_panel(cli: Cli, panel: str) -> None:
    a = cli("classify", CASE, "--panel", panel, "--json").json
    check_answer(a)
    assert a["panel"] == panel
    assert a["second_order"] is not None
    assert a["out_of_class"] is not None
    assert a["evidence"]


@pytest.mark.parametrize("how", ["m-smc --kernel soft", "d-smc --kernel hard", "d-smc --engine particles"])
def test_methods_engines_kernels(cli: Cli, how: str) -> None:
    answer = cli("classify", CASE, *ORAL, "--json", "--method", *how.split()).json
    check_answer(answer)
    assert answer["label"] == "oral mucocele"


def test_same_seed_same_answer(cli: Cli) -> None:
    args = ("classify", CASE, *ORAL, "--method", "d-smc", "--engine", "particles", "--json", "--seed")
    assert cli(*args, 3).json == cli(*args, 3).json != cli(*args, 4).json


def test_priors(cli: Cli) -> None:
    prior = cli("classify", CASE, *ORAL, "--json", "--prior", "oral mucocele=.1").json["provenance"]["prior"]
    assert prior == pytest.approx({LABELS[0]: 0.45, LABELS[1]: 0.1, LABELS[2]: 0.45})
    dropped = cli(
        "classify", CASE, *ORAL, "--json", "--prior", "oral mucocele=0", "atrophic glossitis=.5"
    ).json
    assert (dropped["posterior"]["oral mucocele"], dropped["second_order"]["mean"]["oral mucocele"]) == (0, 0)
    counts = cli("classify", CASE, *ORAL, "--json", "--prior-counts", "oral mucocele=5").json["provenance"]
    assert (counts["alpha0"], counts["prior"]["oral mucocele"]) == (7, pytest.approx(5 / 7))
    doubled = cli("classify", CASE, *ORAL, "--json", "--odds", "oral mucocele=2").json["provenance"]["prior"]
    assert doubled["oral mucocele"] == pytest.approx(0.5)


def test_files(cli: Cli, tmp_path: Path) -> None:
    good = tmp_path / "case.txt"
    good.write_text(CASE, encoding="utf-8-sig")
    assert cli("classify", "--file", good, *ORAL, "--json").json["label"] == "oral mucocele"


def test_one_word_that_names_a_case_is_not_answered_as_one(cli: Cli, tmp_path: Path) -> None:
    here = tmp_path / "case.txt"
    here.write_text(CASE)
    for word, said in {
        here: f"--file {here}",
        tmp_path: "is a folder",
        "https://example.org/case": "fetches nothing",
        **dict.fromkeys(
            ("note.tx", "a/note.txt", "N(1).PDF", "x.jsonl", "x.parquet"), "looks like a file name"
        ),
    }.items():
        assert said in cli("classify", word, *ORAL).complaint
    for text in ("Zungengeschwür.", "ulcer/lump", "舌头溃疡三个月", "3.5cm", "e.g"):
        assert cli("classify", text, *ORAL, "--json").code == 0


def test_a_panel_file_without_a_name_is_called_after_its_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mouths").mkdir()
    (tmp_path / "mouths" / "panel.yaml").write_text("labels: [a, b]\n")
    monkeypatch.chdir(tmp_path / "mouths")
    assert "panel 'mouths' has no bank" in cli("classify", CASE, "--panel", "panel.yaml").complaint


def test_a_table_is_not_one_patient(cli: Cli, tmp_path: Path) -> None:
    rows = "id,text\n1,A blue lip.\n2,A sore tongue.\n"
    for name in ("cases.csv", "cases.txt", "cases.parquet"):
        (tmp_path / name).write_text(rows, encoding="utf-8")
        assert "takes the text of one case" in cli("classify", "--file", tmp_path / name, *ORAL).complaint
    note = tmp_path / "note.txt"
    note.write_text("Lip, lower, soft\nbluish, painless swelling after a bite", encoding="utf-8")
    assert cli("classify", "--file", note, *ORAL, "--json").code == 0


def test_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CASE.encode())))
    assert cli("classify", "-", *ORAL, "--json").json["label"] == "oral mucocele"


def test_a_user_bank_without_background(cli: Cli, tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    bank.write_text(
        "".join(json.dumps({"label": x, "text": f"{x} seen {i}"}) + "\n" for x in LABELS for i in range(4))
    )
    a = cli("classify", CASE, *ORAL, "--bank", bank, "--json").json
    check_answer(a)
    assert a["out_of_class"] > 0.5  # the library describes the case better than such texts do


def test_html_page_is_self_contained(cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "answer.html"
    text = CASE + ' <script>alert("x")</script> & more'
    assert cli("classify", text, *ORAL, "--html", page).code == 0
    html = page.read_text()
    assert "class='bars'" in html
    assert "<script" not in html
    assert not re.search(r"""(?:src|href)\s*=\s*['"]?(?:https?:)?//""", html)
    assert "not a medical device" in html.lower()
    assert "<svg" in html  # the triangle of D-SMC


def test_the_words_on_the_terminal(cli: Cli) -> None:
    ran = cli("classify", CASE, *ORAL)
    assert ran.code == 0
    assert len(ran.out.splitlines()) <= 12
    assert max(map(len, ran.out.splitlines())) <= 80
    for word in ("oral mucocele", "none of these", "labelled cases"):
        assert word in ran.out
    assert (
        "Accept (supported by labelled cases, no error rate guaranteed)" in ran.out
        or "Likely: not accepted automatically" in ran.out
    )
    assert not any(word in ran.out for word in ("aleatoric", "epistemic", "simplex", "α", "bits"))
    rest = cli("classify", CASE, *ORAL, "--verbose").out
    assert all(
        word in rest for word in ("aleatoric", "a second and less precise method", "effective simulations")
    )


def test_red_flags_are_never_cut_off(cli: Cli) -> None:
    text = (
        "I am wheezing and tight in the chest. After the long flight I coughed up blood this morning and now "
        "again."
    )
    ran = cli("classify", text, "--panel", "symptom-to-diagnosis")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    at = next(
        i for i, line in enumerate(lines) if line.startswith("  not explained: “After the long flight I")
    )
    assert lines[at + 1].startswith("    coughing up blood, a red flag of ")
    assert ran.out.count("coughing up blood") == 1
    rest = cli("classify", text, "--panel", "symptom-to-diagnosis", "--verbose").out
    assert "blood this morning and now again.”" in " ".join(rest.split())


def test_several_panels_are_independent_questions(cli: Cli, tmp_path: Path) -> None:
    panels = ("--panel", "oral-lesions", "--panel", "symptom-to-diagnosis")
    prior = ("--prior", "oral mucocele=.1", "arthritis=.5", "--json")
    page = tmp_path / "page.html"
    found = cli("classify", CASE, *panels, *prior, "--html", page).json
    assert list(found) == ["results"]
    for answer, name, own in zip(found["results"], panels[1::2], prior[1:3], strict=True):
        check_answer(answer)
        assert answer == cli("classify", CASE, "--panel", name, "--prior", own, "--json").json
        assert answer["label"] in page.read_text("utf-8")
    said = cli("classify", CASE, *panels).out
    assert said.index("oral-lesions") < said.index("symptom-to-diagnosis")
    refused = {
        ("--prior", "pear=.1"): "none of these panels",
        ("--panel", "oral-lesions"): "named twice",
        ("--bank", "x"): "--bank applies to one panel",
    }
    for more, complaint in refused.items():
        assert complaint in cli("classify", CASE, *panels, *more).complaint


def test_only_some_labels(cli: Cli) -> None:
    answer = cli("classify", CASE, *ORAL, "--only", LABELS[0], "--only", LABELS[2], "--json").json
    check_answer(answer)
    assert answer["posterior"][LABELS[1]] == 0 < answer["posterior"][LABELS[0]]
    assert answer["provenance"]["alpha0"] == pytest.approx(2)
    assert "is not a label" in cli("classify", CASE, *ORAL, "--only", "pear").complaint
