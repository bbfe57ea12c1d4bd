"""No entry point lets text leave unasked: each is tried with a listening canary, and 0 bytes arrive.

The canary is a socket on this machine behind a name that counts as another one. Each refusal is followed,
here or in a test beside it, by the same call with permission: then the bytes do arrive.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from simdx.bank.files import write_jsonl
from simdx.types import Bank, content_hash
from tests.cli.conftest import Cli
from tests.contracts.canary import FAR, SECRET, Canary, names_of

QUICK = ("--method", "centroid")  # a later --method takes its place
CASE = "xyzzy sweet red fruit of the orchard"  # one word of it occurs nowhere else
# Every way to put a model to work on a case.
ASKING = [["--method", method] for method in ("logits", "elicited", "ensemble", "fidelity")]
ASKING += [["--method", m, "--engine", "live"] for m in ("m-smc", "d-smc")]


@dataclass(frozen=True)
class World:
    """A panel, a bank and cases on disk, and the arguments of every command that is given a case."""

    folder: Path
    cli: Cli
    canary: Canary

    def asked(self, *arguments: object) -> dict[str, object]:
        """What came of a command that may send nothing: what it said, what arrived, what was written."""
        complaint = self.cli(*arguments).complaint
        return {
            "names the option": "--allow-remote" in complaint,
            "names the server": FAR in complaint,
            "bytes that arrived": len(self.canary.received),
            "files written": (self.folder / "out").exists(),
        }

    def embedding(self, entry: str, embedder: str = "hashing") -> list[str]:
        """A command that embeds with a panel that names this embedder."""
        panel, words = str(self.panel(embedder)), [str(word) for word in EMBEDDING[entry]]
        named = [] if "@panel" in words else ["--panel", panel]
        words = [panel if word == "@panel" else word.replace("@/", f"{self.folder}/") for word in words]
        return [*words, *named]

    def panel(self, embedder: str = "hashing") -> Path:
        path = self.folder / f"panel-{content_hash(embedder)[:8]}.yaml"
        path.write_text(
            f"name: toy\nembedder: '{embedder}'\nlabels: [apple, river, engine]\nbanks: [bank.jsonl]\n"
            "background: background.jsonl\n"
        )
        return path


REFUSED = {"names the option": True, "names the server": True, "bytes that arrived": 0, "files written": 0}


@pytest.fixture
def world(tmp_path: Path, toy_bank: Bank, cli: Cli, canary: Canary) -> World:
    folder = tmp_path / "world"
    folder.mkdir()
    labelled = [(toy_bank.labels[i], t) for i, t in zip(toy_bank.label_index, toy_bank.texts, strict=True)]
    rows = [{"label": label, "text": text} for label, text in labelled]
    cases = [{"id": str(i), "label": k, "text": f"{CASE} {text}"} for i, (k, text) in enumerate(labelled)]
    others = [{"label": f"other {i % 5}", "text": f"shelf letter page {i} {i % 7}"} for i in range(30)]
    for name, content in (("bank", rows), ("cases", cases), ("background", others)):
        write_jsonl(folder / f"{name}.jsonl", content)
    table = {"id": [case["id"] for case in cases], "text": [case["text"] for case in cases]}
    parquet.write_table(pa.table(table), folder / "cases.parquet")
    return World(folder, cli, canary)


# Every command that embeds, to which --embedder may be added; `@` is the world's folder.
EMBEDDING = {
    "classify": ("classify", CASE, "--json", *QUICK),
    "evaluate": ("evaluate", "--data", "@/cases.jsonl", "--resamples", 100, "--json", *QUICK),
    "scale classify": ("scale", "classify", "@/cases.parquet", "@/out", "--in-process", *QUICK),
    "bank score": ("bank", "score", "--cases", "@/cases.jsonl"),
    "panel calibrate": (
        "panel", "calibrate", "@panel", "--inside", "@/cases.jsonl", "--outside", "@/background.jsonl"
    ),
    "policy tune": ("policy", "tune", "--data", "@/cases.jsonl", "--out", "@/out", *QUICK),
    "abi train": (
        "abi", "train", "--observations", "@/cases.jsonl", "--out", "@/out", "--count", 40, "--epochs", 1
    ),
    "abi report": ("abi", "report", "--data", "@/cases.jsonl"),
}  # fmt: skip
WITHOUT_CASES = ("abi report",)  # it looks for a network first, and there is none: only its bank is embedded


# --------------------------------------------------------------------------- entry points


@pytest.mark.parametrize("kind", ["alone", "joint"])
@pytest.mark.parametrize("entry", EMBEDDING)
def test_an_embedder_elsewhere_gets_nothing(entry: str, kind: str, canary: Canary, world: World) -> None:
    far = names_of(canary)[kind]
    assert world.asked(*world.embedding(entry), "--embedder", far) == REFUSED
    assert world.asked(*world.embedding(entry, far)) == REFUSED  # named by the panel's file


@pytest.mark.parametrize("entry", EMBEDDING)
def test_with_permission_the_same_command_reaches_it(
    entry: str, cli: Cli, canary: Canary, world: World
) -> None:
    """The canary can sing: were the gate open, these tests would know."""
    cli(*world.embedding(entry, f"hashing+{canary.model()}"), "--allow-remote")
    assert SECRET.encode() not in canary.received  # plain http to another machine
    assert (b"xyzzy" in canary.received) == (entry not in WITHOUT_CASES)


def test_the_answer_says_that_text_left(cli: Cli, canary: Canary, world: World) -> None:
    classify = world.embedding("classify")
    left = cli(*classify, "--embedder", f"hashing+{canary.model()}", "--allow-remote").json
    assert left["provenance"]["remote"] is True
    assert cli(*classify).json["provenance"]["remote"] is False


def test_a_bank_is_described_by_no_embedder_elsewhere(cli: Cli, canary: Canary, world: World) -> None:
    panel = world.panel(f"hashing+{canary.model()}")
    made = cli(
        "bank", "import", "--panel", panel, "--from", world.folder / "bank.jsonl", "--out", world.folder / "b"
    )
    assert made.code == 0, made.err
    assert world.asked("bank", "show", world.folder / "b", "--panel", panel) == REFUSED
    assert world.asked("policy", "show", "--panel", panel) == REFUSED
    assert cli("bank", "show", world.folder / "b", "--panel", panel, "--allow-remote").code == 0
    assert canary.received


@pytest.mark.parametrize("asked", ASKING, ids=lambda asked: "-".join(asked[1::2]))
@pytest.mark.parametrize("entry", ["classify", "evaluate"])
def test_a_model_elsewhere_is_asked_nothing_about_a_case(
    asked: list[str], entry: str, cli: Cli, canary: Canary, world: World
) -> None:
    ask_far = [*world.embedding(entry), *asked, "--simulator", canary.model()]
    assert world.asked(*ask_far) == REFUSED
    if entry == "classify":
        ran = cli(*ask_far, "--allow-remote", "--budget", 9)
        assert SECRET.encode() not in canary.received  # plain http to another machine
        assert (b"xyzzy" in canary.received) == ("--engine" not in asked)  # a live engine sends labels alone
        assert ran.json["provenance"]["remote"] is True


def test_no_file_gives_permission(cli: Cli, canary: Canary, world: World) -> None:
    panel = world.panel(canary.model())
    panel.write_text(panel.read_text() + "allow_remote: true\n")
    assert cli("classify", CASE, "--panel", panel).complaint
    assert canary.received == b""


@pytest.mark.parametrize("by", ["panel file", "--embedder"])
@pytest.mark.parametrize("kind", ["alone", "joint"])
def test_the_service_does_not_start(
    by: str, kind: str, cli: Cli, canary: Canary, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bound(*_: object) -> None:
        raise OSError("a port was opened")

    monkeypatch.setattr("socket.socket.bind", bound)
    far = names_of(canary)[kind]
    panel = world.panel(far if by == "panel file" else "hashing")
    serve = ["serve", "--panel", panel, "--port", 0, "--audit", "none"]
    assert world.asked(*serve, *([] if by == "panel file" else ["--embedder", far])) == REFUSED
    permitted = cli(*serve, "--embedder", far, "--allow-remote").complaint
    assert "cannot listen" in permitted
    assert canary.received == b""


def test_building_a_bank_sends_labels_to_the_server_it_names(cli: Cli, canary: Canary, world: World) -> None:
    """No case is at hand, and the command line names the server: that is permission enough."""
    build = ["bank", "build", "--panel", world.panel(), "--simulator", canary.model()]
    cli(*build, "--per-label", 1, "--max-requests", 2, "--out", world.folder / "out")
    assert b"apple" in canary.received
    assert b"xyzzy" not in canary.received


def test_a_review_needs_no_connection(cli: Cli, world: World, no_network: None) -> None:
    """It has neither embedder nor model: its forms are written, and nothing is sent."""
    made = cli("review", "make", "--data", world.folder / "cases.jsonl", "--out", world.folder / "out")
    assert made.code == 0, made.err
    assert cli("review", "summary", world.folder / "out").code == 0


def test_a_cluster_is_joined_by_permission_alone(
    cli: Cli, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    joined: list[Any] = []
    monkeypatch.setattr(ray, "init", lambda **options: joined.append(options["address"]))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.1:6379")
    scale = [word for word in world.embedding("scale classify") if word != "--in-process"]
    for address in ("auto", "192.0.2.1:6379", "ray://192.0.2.1:10001"):
        assert "--allow-remote" in cli(*scale, "--address", address).complaint
    assert not joined
    from simdx.scale.cluster import connected

    with connected(None):
        pass
    with connected("auto", allow_remote=True):
        pass
    assert joined == ["local", "auto"]  # the environment's cluster was not
