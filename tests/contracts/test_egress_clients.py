"""What counts as remote, and what a client of this machine's own servers will not do."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import pytest

from simdx import Classifier, egress
from simdx.egress import admit, is_remote, open_client
from simdx.embedders import Embedder, JointEmbedder, embed_texts, get_embedder
from simdx.embedders.hashing import HashingEmbedder
from simdx.embedders.openai import OpenAIEmbedder
from simdx.errors import BadInput, NotAllowed, RunFailed
from simdx.simulators import Simulator, get_simulator
from simdx.simulators.base import Request, ask
from simdx.simulators.openai import OpenAISimulator
from simdx.types import Bank, Panel
from tests.conftest import ROOT
from tests.contracts.canary import FAR, Canary, lead, names_of, own_address

CASE = "xyzzy sweet red fruit of the orchard"
pytestmark = pytest.mark.usefixtures("alone")


# --------------------------------------------------------------------------- Python


class Silent(HashingEmbedder):
    """An embedder of a caller's own, which does not say where it computes."""

    id = "own/1"
    remote = None  # type: ignore[assignment]


class Unsaid:
    """One that was written before there was anything to say."""

    id, blocks = "own/0", (256,)

    def embed_batch(self, texts: Sequence[str]) -> Any:
        return HashingEmbedder().embed_batch(texts)


@pytest.mark.parametrize("part", [Silent(), Unsaid()])
def test_unknown_means_remote(part: Any, toy_panel: Panel, toy_bank: Bank) -> None:
    assert is_remote(part)
    for embedder in (part, JointEmbedder([HashingEmbedder(), part])):
        with pytest.raises(NotAllowed, match="--allow-remote"):
            Classifier(toy_panel, toy_bank, embedder=embedder)
        allowed = Classifier(toy_panel, toy_bank, method="centroid", embedder=embedder, allow_remote=True)
        assert allowed.remote is True


def test_python_callers_are_asked_too(canary: Canary, toy_panel: Panel, toy_bank: Bank) -> None:
    for far in names_of(canary).values():
        with pytest.raises(NotAllowed):
            Classifier(toy_panel, toy_bank, embedder=far)
        with pytest.raises(NotAllowed):
            get_embedder(far)
    with pytest.raises(NotAllowed):
        OpenAIEmbedder("m", canary.url())
    with pytest.raises(NotAllowed):
        OpenAISimulator("m", canary.url())
    with pytest.raises(NotAllowed):
        get_simulator(canary.model())
    assert canary.received == b""


def test_permission_of_one_caller_is_not_that_of_the_next(
    canary: Canary, toy_panel: Panel, toy_bank: Bank
) -> None:
    """Embedders and models are kept for the process; the permission to use them is not."""
    far = f"hashing+{canary.model()}"
    get_embedder(far, allow_remote=True)
    asking = {"method": "ensemble", "simulator": canary.model()}
    Classifier(toy_panel, toy_bank, allow_remote=True, **asking)  # type: ignore[arg-type]
    before = canary.received
    with pytest.raises(NotAllowed):
        get_embedder(far)
    with pytest.raises(NotAllowed):
        Classifier(toy_panel, toy_bank, **asking)  # type: ignore[arg-type]
    assert canary.received == before


# --------------------------------------------------------------------------- servers on this machine


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_here_is_not_reached_through_a_proxy(
    variable: str,
    host: str,
    canary: Canary,
    toy_panel: Panel,
    toy_bank: Bank,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, canary.url().removesuffix("/v1"))
    with Canary() as here:
        near = Classifier(toy_panel, toy_bank, method="centroid", embedder=f"hashing+{here.model(host)}")
        near.predict(CASE)
        assert near.remote is False
        assert b"xyzzy" in here.received
        assert ask(get_simulator(here.model(host)), Request("xyzzy")).ok
    assert canary.received == b""


def test_a_redirect_is_not_followed(canary: Canary) -> None:
    """Neither from this machine to another, nor from one other machine to the next."""
    with Canary(redirect_to=canary.url()) as here:
        for host, allow in (("127.0.0.1", False), (FAR, True)):
            with pytest.raises(RunFailed, match="points elsewhere"):
                embed_texts(get_embedder(here.model(host), allow_remote=allow), [CASE])
            answer = ask(get_simulator(here.model(host), allow_remote=allow), Request("xyzzy"))
            assert answer.error is not None
            assert "points elsewhere" in answer.error
        assert here.received.count(b"POST ") == 4  # and it is not asked again
    assert canary.received == b""


def test_a_name_that_is_made_to_stand_for_another_machine_gets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = own_address()
    if address is None:  # no network at all: let the connection say that its other end is elsewhere
        stream = "httpcore2._backends.sync.SyncStream.get_extra_info"
        monkeypatch.setattr(stream, lambda *_: ("192.0.2.7", 1))
    lead(monkeypatch, "localhost", address or "127.0.0.1")
    with Canary(address or "127.0.0.1") as there:
        embedder = OpenAIEmbedder("m", there.url("localhost"))
        assert not embedder.remote
        with pytest.raises(RunFailed, match="on another machine"):
            embed_texts(embedder, [CASE])
        answer = ask(OpenAISimulator("m", there.url("localhost")), Request("xyzzy"))
        assert answer.error is not None
        assert "nothing was sent" in answer.error
        assert there.received == b""


def test_every_new_connection_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first answer earns no trust: the name may stand for something else a moment later."""
    looked: list[str] = []
    real = egress._look_at_peer
    monkeypatch.setattr(egress, "_look_at_peer", lambda e, i: (looked.append(e), real(e, i)))
    with Canary() as here:
        for _ in range(2):
            client = open_client(here.url("localhost"), 10, False)
            client.embeddings.create(model="m", input=["width"], encoding_format="float")
            client.close()
    assert looked.count("connection.connect_tcp.complete") == 2


# --------------------------------------------------------------------------- every embedder and simulator


@pytest.mark.parametrize("name", ["hashing", "wordllama", "minilm", "wordllama+hashing", "wordllama+minilm"])
def test_an_embedder_here_stays_here(name: str, request: pytest.FixtureRequest) -> None:
    embedder = get_embedder(name)  # weights may have to be fetched; a text may not leave
    request.getfixturevalue("no_network")
    assert isinstance(embedder, Embedder)
    assert embedder.remote is False
    assert admit(embedder, False) is embedder
    assert len(embed_texts(embedder, [CASE])) == 1


@pytest.mark.parametrize(
    "name",
    [
        "scripted",
        pytest.param("smollm2", marks=pytest.mark.slow),
        pytest.param("hf:smollm2", marks=pytest.mark.slow),
    ],
)
def test_a_simulator_here_stays_here(name: str, request: pytest.FixtureRequest) -> None:
    try:
        simulator = get_simulator(name)
    except (RunFailed, BadInput) as problem:
        pytest.skip(str(problem))
    request.getfixturevalue("no_network")
    assert isinstance(simulator, Simulator)
    assert simulator.remote is False
    assert admit(simulator, False) is simulator
    assert ask(simulator, Request(CASE, max_tokens=4)).ok
    simulator.close()


SOURCE = ROOT / "src" / "simdx"
NETWORK = {
    "openai",
    "httpx",
    "httpx2",
    "httpcore2",
    "requests",
    "urllib",
    "urllib3",
    "aiohttp",
    "http",
    "socket",
}
# Who else may know of the network, and why.
KNOWN = {
    "egress.py": {"openai", "httpx2", "urllib"},  # the gate, and the parsing of addresses
    "simulators/openai.py": {"openai"},  # the kinds of errors
    "models/hub.py": {"socket"},  # weights come in: is there a network?
    "service/config.py": {"urllib"},  # the parsing of addresses
    "service/record_servers.py": {"urllib"},
    "service/fetch.py": {"httpx2"},  # key sets and attachments come in, from servers the operator named
    "service/server.py": {"socket"},  # listens
}


def modules() -> dict[str, ast.Module]:
    found = sorted(SOURCE.rglob("*.py"))
    return {f.relative_to(SOURCE).as_posix(): ast.parse(f.read_text(encoding="utf-8")) for f in found}


def test_only_the_gate_opens_connections() -> None:
    used: dict[str, set[str]] = {}
    for name, tree in modules().items():
        if name.startswith("bench/"):  # measures a service of its own, on loopback
            continue
        for node in ast.walk(tree):
            given = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            given += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for first in {g.split(".")[0] for g in given} & NETWORK:
                used.setdefault(name, set()).add(first)
    assert used == KNOWN


def test_every_embedder_and_simulator_says_where_it_computes() -> None:
    """A class with a batch method of either protocol sets `remote`, in its body or when it is made."""
    classes = {
        node.name: node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and {"embed_batch", "complete"} & {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
    }
    assert {"HashingEmbedder", "JointEmbedder", "OpenAIEmbedder", "LlamaCppSimulator", "Endpoints"} <= set(
        classes
    )
    for name, node in classes.items():
        said = {
            target.id if isinstance(target, ast.Name) else target.attr
            for found in ast.walk(node)
            if isinstance(found, ast.Assign | ast.AnnAssign)
            for target in (found.targets if isinstance(found, ast.Assign) else [found.target])
            if isinstance(target, ast.Name | ast.Attribute)
        }
        declared = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        assert "remote" in said | declared, f"{name} does not say whether it is remote"
