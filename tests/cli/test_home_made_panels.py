"""A panel that somebody made at home accepts no emergency, and nothing that is not of the panel."""

import json
from pathlib import Path

import pytest

from simdx import Classifier
from simdx.errors import BadInput
from tests.cli.conftest import Cli

# Ten of them are what was accepted once; ten are emergencies of all kinds.
PROBES = (
    "worst headache of my life, came on like a bat to the back of my head an hour ago, and my neck's stiff",
    "Itchy eyes and sneezing every spring when the birches flower.",
    "My left eye is red and sticky in the morning with yellow discharge.",
    "Runny nose and mild cough for three days, colleagues have the same.",
    "Sudden severe pain in one eye with halos around lights, vomiting, the eye is red and hard.",
    "Crushing chest pain going to the left arm, sweating, for an hour.",
    "My right arm went weak and my speech was slurred, it came on suddenly this morning.",
    "Severe pain in the lower right belly since yesterday, fever, worse when I move.",
    "Burning when passing urine, going every half hour.",
    "My ankle twisted on the stairs, swollen and blue, I cannot put weight on it.",
    "Thunderclap headache during exercise, vomited twice, now drowsy with a stiff neck.",
    "Cannot breathe, lips swelling, hives all over after eating peanuts ten minutes ago.",
    "Two weeks of thirst, passing a lot of urine, lost five kilos.",
    "Sudden tearing pain between the shoulder blades, the pulse of one arm is weaker.",
    "Calf swollen and tender after a long flight, now breathless.",
    "High fever, purple spots on the legs that do not fade, confused, light hurts my eyes.",
    "I feel worthless and cannot sleep, I have thought about ending my life.",
    "The baby is floppy, refuses the bottle, the soft spot is bulging.",
    "Black tarry stools for two days, dizzy when standing up.",
    "Painless loss of vision in the right eye like a curtain coming down this afternoon.",
)
HEADACHES = """
labels:
  - {name: migraine, description: "One-sided throbbing headache with nausea; light and noise hurt."}
  - {name: tension headache, description: "Dull pressing headache like a band around the head."}
  - {name: cluster headache, description: "Stabbing pain around one eye that waters, in bouts at night."}
ask_about: [subarachnoid haemorrhage, meningitis]
register: patient
"""


def built(cli: Cli, folder: Path, per_label: int, background: int) -> Path:
    """A home-made panel with a bank by the scripted simulator."""
    panel = folder / "headaches.yaml"
    panel.write_text(HEADACHES, encoding="utf-8")
    out = folder / "bank"
    told = cli(
        "bank", "build", "--panel", panel, "--simulator", "scripted", "--per-label", per_label,
        "--background", background, "--rehearsal", 2, "--out", out, "--json",
    ).json["rehearsal"]  # fmt: skip
    assert told["texts"] == 3 * per_label
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("per_label", "background"), [(20, 20), (40, 0), (50, 40)])
def test_headaches_at_home(
    cli: Cli, tmp_path: Path, private_home: Path, per_label: int, background: int
) -> None:
    bank = built(cli, tmp_path, per_label, background)
    answers = Classifier(tmp_path / "headaches.yaml", bank).infer(list(PROBES), explain=False)
    assert [a.decision.action for a in answers if a.decision.action == "accept"] == []


@pytest.mark.slow
@pytest.mark.parametrize("panel", ["airways", "clinc10", "abstracts"])
def test_panels_that_were_made_in_half_an_hour(panel: str, shared: Path, private_home: Path) -> None:
    """The airways' own label is among the probes: hay fever may be accepted there, nothing else."""
    answers = Classifier(shared / "transfer" / panel / "panel.yaml").infer(list(PROBES), explain=False)
    accepted = {i: a.label for i, a in enumerate(answers) if a.decision.action == "accept"}
    allowed = {1: "Allergic sinusitis"} if panel == "airways" else {}
    assert accepted.items() <= allowed.items()


def test_the_background_holds_what_must_be_asked_about(cli: Cli, tmp_path: Path, private_home: Path) -> None:
    bank = built(cli, tmp_path, 20, 20)
    described = [
        json.loads(line)["condition"] for line in (bank / "background.jsonl").read_text().splitlines()
    ]
    assert described.count("subarachnoid haemorrhage") >= 4
    assert described.count("meningitis") >= 4
    other = tmp_path / "others.jsonl"
    other.write_text(json.dumps({"condition": "gout", "text": "My toe is red and hurts at night."}) + "\n")
    listed = HEADACHES + "banks: [bank.jsonl]\nbackground: others.jsonl\n"
    (tmp_path / "bank.jsonl").write_bytes((bank / "bank.jsonl").read_bytes())
    (tmp_path / "listed.yaml").write_text(listed, encoding="utf-8")
    with pytest.raises(BadInput, match="subarachnoid haemorrhage"):
        Classifier(tmp_path / "listed.yaml")
