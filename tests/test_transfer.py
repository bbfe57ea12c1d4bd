"""The transfer suite: constants chosen on the other panels, figures with intervals, bad input in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from simdx import transfer
from tests.cli.conftest import Cli

KINDS = {
    "fruit": {"apples": "apple orchard sweet red cider tree", "boats": "boat sail harbour wind mast rope"},
    "house": {"doors": "door hinge wood key lock handle", "lamps": "lamp bulb light switch shade glow"},
}
OTHERS = "cloud rain sky storm grey weather train ticket station delay"


def write(path: Path, words: dict[str, str], n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        {"id": f"{label}-{i}", "label": label, "text": " ".join(rng.choice(stem.split(), 5))}
        for label, stem in words.items()
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def suite(tmp_path: Path, private_home: Path) -> Path:
    for seed, (name, words) in enumerate(KINDS.items()):
        folder = tmp_path / "suite" / name
        folder.mkdir(parents=True)
        listed = "banks: [bank.jsonl]\nbackground: background.jsonl\n"
        (folder / "panel.yaml").write_text(f"register: general\nlabels: [{', '.join(words)}]\n{listed}")
        write(folder / "bank.jsonl", words, 20, seed)
        write(folder / "background.jsonl", {"other": OTHERS}, 20, seed + 5)
        write(folder / "cases.jsonl", words, 15, seed + 10)
        write(folder / "ood.jsonl", {"other": OTHERS}, 10, seed + 15)
    return tmp_path / "suite"


@pytest.mark.slow
def test_every_panel_has_a_row(suite: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "record.json"
    found = cli("validate", "transfer", "--data", suite, "--out", out, "--json").json
    assert found == json.loads(out.read_text())
    assert [p["panel"] for p in found["panels"]] == ["fruit", "house"]
    for panel in found["panels"]:
        assert panel["n"] == 30
        assert panel["accuracy"]["low"] <= panel["accuracy"]["value"] <= panel["accuracy"]["high"]
        assert panel["outside"]["mean_outside"] > panel["outside"]["mean_inside"]
        assert set(panel["log_loss_by_bandwidth"]) == {f"{b:g}" for b in transfer.BANDWIDTHS}
    assert found["mean_ece"] == pytest.approx(np.mean([p["ece"]["value"] for p in found["panels"]]))


@pytest.mark.slow
def test_a_panel_has_no_part_in_its_own_constants(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [transfer.ask(entry) for entry in transfer.entries([suite], {})]
    seen = []
    monkeypatch.setattr(transfer, "ask", lambda entry, _: asked[[e.panel for e in listed].index(entry.panel)])
    listed = transfer.entries([suite], {})
    chosen = transfer.chosen

    def watched(others):
        seen.append([a.name for a in others])
        return chosen(others)

    monkeypatch.setattr(transfer, "chosen", watched)
    transfer.run(listed)
    assert seen == [["house"], ["fruit"]]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "at least two panels"),
        (("--data", "nowhere"), "is not a folder"),
        (("--packaged", "oral-lesions"), "PANEL=CASES.jsonl"),
    ],
)
def test_bad_input_is_one_line(args: tuple[str, ...], said: str, cli: Cli) -> None:
    assert said in cli("validate", "transfer", *args).complaint
