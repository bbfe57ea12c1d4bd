"""`simdx policy tune|show` and `classify --policy`."""

import json
from pathlib import Path

CASE = "A soft bluish swelling of the lower lip."
ORAL = ("--panel", "oral-lesions")


def test_tune_on_simulated_text_show_and_use(cli, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    tuned = cli("policy", "tune", "--panel", "oral-lesions", "--out", file, "--json").json
    assert (tuned["origin"]["source"], tuned["alarm"]["rate"]) == ("simulated text", 0.1)
    shown = cli("policy", "show", file)
    assert shown.code == 0
    assert "simulated texts" in shown.out
    assert cli("policy", "show", "--panel", "oral-lesions", "--json").json["panel"] == "oral-lesions"
    answer = cli("classify", CASE, *ORAL, "--policy", file, "--json").json
    assert answer["decision"]["reasons"]


def test_tune_on_labelled_cases(cli, tmp_path: Path) -> None:
    bank = Path(__file__).parents[2] / "src/simdx/panels/data/oral-lesions/bank.jsonl"
    data = tmp_path / "cases.csv"
    rows = [json.loads(line) for line in bank.read_text(encoding="utf-8").splitlines()]
    lines = ["note,dx"] + [f"{' '.join(r['text'].split()[:20]).replace(',', '')},{r['label']}" for r in rows]
    data.write_text("\n".join(lines), encoding="utf-8")
    file = tmp_path / "policy.yaml"
    columns = ("--text-column", "note", "--label-column", "dx")
    tuned = cli(
        "policy", "tune", "--panel", "oral-lesions", "--data", data, *columns, "--out", file, "--json"
    ).json
    assert (tuned["conformal"]["kind"], tuned["risk"]["target"]) == ("class-conditional", 0.05)
    answer = cli("classify", CASE, *ORAL, "--policy", file, "--json").json
    assert isinstance(answer["conformal_set"], list)


def test_show_takes_the_bank_of_a_panel_without_one(cli, tmp_path: Path, private_home: Path) -> None:
    panel, bank = tmp_path / "p.yaml", tmp_path / "b.jsonl"
    panel.write_text("labels: [apple, river]\nembedder: hashing\n", encoding="utf-8")
    texts = {"apple": ("red and sweet", "round and red"), "river": ("wet and long", "long and blue")}
    rows = [json.dumps({"label": label, "text": text}) for label, two in texts.items() for text in two]
    bank.write_text("\n".join(rows), encoding="utf-8")
    assert "--bank" in cli("policy", "show", "--panel", panel).complaint
    shown = cli("policy", "show", "--panel", panel, "--bank", bank, "--json").json
    assert shown["origin"]["n"] == 4


def test_bad_requests_are_one_line(cli, tmp_path: Path) -> None:
    out, tune = tmp_path / "p.yaml", ("policy", "tune", "--panel", "oral-lesions", "--out")
    out.write_text("thresholds: {confident: high}", encoding="utf-8")
    for arguments, said in (
        ((*tune, out, "--risk", "2"), "--risk"),
        ((*tune, out, "--panel", "nonesuch"), "unknown panel"),
        ((*tune, tmp_path / "no" / "p.yaml"), "folder"),
        ((*tune, tmp_path), "names a folder"),
        ((*tune, out, "--data", out, "--sets", "odd"), "--sets"),
        (("policy", "show", out, "--bank", tmp_path), "--bank goes with --panel"),
        (("policy", "show", tmp_path / "none.yaml"), "cannot be read"),
        (("policy", "show"), "give a policy file or --panel"),
        (("classify", CASE, *ORAL, "--policy", out), "confident"),
    ):
        assert said in cli(*arguments).complaint
