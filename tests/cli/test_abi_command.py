"""`simdx abi train|report`, `--method abi` and `simdx bench abi` through the command line."""

import json
import math
from pathlib import Path

import pytest

from simdx.cli.main import run
from tests.cli.conftest import Cli

CASE = "A painless bluish fluctuant swelling of the lower lip after a bite, it bursts and comes back."
ORAL = ("--panel", "oral-lesions")
QUICK = ("--count", 2000, "--epochs", 6)


def train(folder: Path, *extra: object) -> Path:
    with pytest.raises(SystemExit) as ended:
        run([str(a) for a in ("abi", "train", "--out", folder, *QUICK, *extra)])
    assert not ended.value.code
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("abi") / "plain")


@pytest.fixture(scope="module")
def conditioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("abi") / "conditioned", "--prior-conditioned")


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    rows = [
        {"id": "a", "text": CASE, "label": "oral mucocele"},
        {"id": "b", "text": "Hard ulcer with rolled edges on the tongue of a smoker, does not heal."},
        {"id": "c", "text": "Smooth red sore tongue without papillae, tired and pale."},
        {"id": "d", "text": "A lump on the lower lip."},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_training_reports_its_card_and_its_loss(cli: Cli, tmp_path: Path) -> None:
    ran = cli("abi", "train", "--out", tmp_path / "n", *QUICK, "--json")
    card = ran.json
    assert card["network"] == str(tmp_path / "n")
    assert (card["objective"], card["prior"]["alpha0"]) == ("kl", 3)
    assert math.isfinite(card["metrics"]["held_out_loss"])
    assert "loss" in ran.err


def test_classify_with_a_network(cli: Cli, network: Path) -> None:
    answer = cli("classify", CASE, *ORAL, "--method", "abi", "--network", network, "--json").json
    assert (answer["method"], answer["label"]) == ("abi", "oral mucocele")
    assert sum(answer["among_labels"].values()) == pytest.approx(1)
    second = answer["second_order"]
    assert second["mean"] == pytest.approx(answer["among_labels"])
    assert second["total_bits"] == pytest.approx(second["aleatoric_bits"] + second["epistemic_bits"])
    assert cli("classify", CASE, *ORAL, "--method", "abi", "--network", network).code == 0


def test_a_network_trained_without_out_is_found(cli: Cli, private_home: Path) -> None:
    assert "train one" in cli("classify", CASE, *ORAL, "--method", "abi").complaint
    assert cli("abi", "train", *QUICK).code == 0
    assert cli("classify", CASE, *ORAL, "--method", "abi", "--json").json["label"] == "oral mucocele"


def test_a_prior_needs_a_conditioned_network(cli: Cli, network: Path, conditioned: Path) -> None:
    asked = ("classify", CASE, *ORAL, "--method", "abi", "--prior", "atrophic glossitis=0.8", "--json")
    assert "--prior-conditioned" in cli(*asked, "--network", network).complaint
    tilted = cli(*asked, "--network", conditioned).json["among_labels"]
    even = cli("classify", CASE, *ORAL, "--method", "abi", "--network", conditioned, "--json").json
    assert tilted["atrophic glossitis"] > even["among_labels"]["atrophic glossitis"]


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        (("--panel", "case-reports"), "trained for the labels"),
        (("--embedder", "hashing"), "embedder"),
        (("--populations", 4), "populations"),
        (("--engine", "particles"), "engine"),
        (("--kernel", "soft"), "hard kernel"),
    ],
)
def test_a_network_is_refused_where_it_does_not_belong(
    cli: Cli, network: Path, extra: tuple[object, ...], word: str
) -> None:
    panel = () if "--panel" in extra else ORAL
    assert word in cli("classify", CASE, *panel, "--method", "abi", "--network", network, *extra).complaint


def test_the_report_compares_case_by_case(cli: Cli, network: Path, cases: Path) -> None:
    asked = ("abi", "report", "--network", network, "--data", cases, "--ood", cases, "--draws", 200)
    ran = cli(*asked, "--json")
    record = ran.json
    assert record["n"] == 4
    assert [row["id"] for row in record["cases"]] == ["a", "b", "c", "d"]
    assert record["accuracy"]["n"] == 1
    assert {"agreement", "correlation_of_means", "kl_nats", "alpha0_ratio"} <= set(record)
    assert {"epistemic_correlation", "epistemic_between_seeds", "disagreement"} <= set(record)
    assert record["out_of_class"]["auroc"]["abi"]["epistemic"] == 0.5  # the same cases on both sides
    assert CASE not in ran.out
    assert "same top class" in cli(*asked).out
