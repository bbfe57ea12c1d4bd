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


def test_outside_cases_give_the_evidence_that_accepting_needs(cli, tmp_path: Path) -> None:
    """Rows of none of these in the cases count like those of --ood."""
    here = Path(__file__).parents[1] / "data"
    bank = Path(__file__).parents[2] / "src/simdx/panels/data/oral-lesions/bank.jsonl"
    rows = [json.loads(line) for line in bank.read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "text": row["text"][:120]} for row in rows]
    rows += [{"text": f"The heel hurts on the first {i} steps.", "label": "none of these"} for i in range(9)]
    data, file = tmp_path / "cases.jsonl", tmp_path / "policy.yaml"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    probes = (here / "outside_probes.jsonl").read_text(encoding="utf-8").splitlines()
    outside = tmp_path / "outside.jsonl"
    outside.write_text("\n".join(line for line in probes if "oral-lesions" not in line), encoding="utf-8")
    asked = ("policy", "tune", *ORAL, "--data", data, "--ood", outside, "--out", file)
    found = cli(*asked, "--json").json["evidence"]
    assert (found["inside"], found["outside"]) == (180, 169 + 9)
    assert found["outside_accepted"] <= 3
    assert 0 < found["upper"] < 0.05
    shown = cli("policy", "show", file).out
    assert f"{found['accepted']} of 180 cases of the labels accepted" in " ".join(shown.split())


def test_outside_cases_have_no_label_of_the_panel_and_few_support_nothing(cli, tmp_path: Path) -> None:
    bank = Path(__file__).parents[2] / "src/simdx/panels/data/oral-lesions/bank.jsonl"
    rows = [json.loads(line) for line in bank.read_text(encoding="utf-8").splitlines()]
    data, file, outside = (tmp_path / name for name in ("cases.jsonl", "policy.yaml", "outside.jsonl"))
    data.write_text(
        "".join(f"{json.dumps({**row, 'text': row['text'][:120]})}\n" for row in rows), encoding="utf-8"
    )
    asked = ("policy", "tune", *ORAL, "--data", data, "--ood", outside, "--out", file)
    heels = [{"text": f"The heel hurts on the first {i} steps."} for i in range(5)]
    outside.write_text("".join(f"{json.dumps(row)}\n" for row in (*heels, rows[0])), encoding="utf-8")
    said = "outside.jsonl: 1 outside cases have a label of the panel, the first of them case 6"
    assert said in cli(*asked).complaint
    assert not file.exists()
    outside.write_text("".join(f"{json.dumps(row)}\n" for row in heels), encoding="utf-8")
    told = cli(*asked).out
    assert "likely  is the strongest decision: only 5 labelled outside cases; the minimum is 60" in told
    assert "  accept  " not in told + cli("policy", "show", file).out


def test_show_takes_the_bank_of_a_panel_without_one(cli, tmp_path: Path, private_home: Path) -> None:
    panel, bank = tmp_path / "p.yaml", tmp_path / "b.jsonl"
    panel.write_text("labels: [apple, river]\nembedder: hashing\n", encoding="utf-8")
    texts = {"apple": ("red and sweet", "round and red"), "river": ("wet and long", "long and blue")}
    rows = [json.dumps({"label": label, "text": text}) for label, two in texts.items() for text in two]
    bank.write_text("\n".join(rows), encoding="utf-8")
    assert "--bank" in cli("policy", "show", "--panel", panel).complaint
    shown = cli("policy", "show", "--panel", panel, "--bank", bank, "--json").json
    assert shown["origin"]["n"] == 4
