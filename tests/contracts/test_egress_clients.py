"""What counts as remote, and what a client of this machine's own servers will not do."""

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from simdx.egress import is_remote, listens
from simdx.embedders import JointEmbedder, embed_texts, get_embedder
from simdx.embedders.base import HashingEmbedder
from simdx.embedders.openai import OpenAIEmbedder
from simdx.errors import BadInput, NotAllowed, RunFailed
from simdx.scale.cluster import connected
from simdx.simulators import get_simulator
from simdx.simulators.base import Request, ask
from simdx.simulators.openai import OpenAISimulator
from tests.builders import toy_classifier
from tests.contracts.canary import FAR, Canary, lead, names_of, own_address
from tests.source import packages, trees

CASE = "xyzzy sweet red fruit of the orchard"
pytestmark = pytest.mark.usefixtures("alone")


# --------------------------------------------------------------------------- Python


class Silent(HashingEmbedder):
    """An embedder of a caller's own, which does not say where it computes."""

    id = "own/1"
    remote = None


class Unsaid:
    """One that was written before there was anything to say."""

    id, blocks = "own/0", (256,)

    def embed_batch(self, texts: Sequence[str]) -> Any:
        return HashingEmbedder().embed_batch(texts)


@pytest.mark.parametrize("part", [Silent(), Unsaid()])
def test_unknown_means_remote(part: Any) -> None:
    assert is_remote(part)
    for embedder in (part, JointEmbedder([HashingEmbedder(), part])):
        with pytest.raises(NotAllowed, match="--allow-remote"):
            toy_classifier(embedder=embedder)
        allowed = toy_classifier(method="centroid", embedder=embedder, allow_remote=True)
        assert allowed.remote is True


def test_python_callers_are_asked_too(canary: Canary) -> None:
    for far in names_of(canary).values():
        with pytest.raises(NotAllowed):
            toy_classifier(embedder=far)
        with pytest.raises(NotAllowed):
            get_embedder(far)
    with pytest.raises(NotAllowed):
        OpenAIEmbedder("m", canary.url())
    with pytest.raises(NotAllowed):
        OpenAISimulator("m", canary.url())
    with pytest.raises(NotAllowed):
        get_simulator(canary.model())
    assert canary.received == b""


def test_permission_of_one_caller_is_not_that_of_the_next(canary: Canary) -> None:
    """Embedders and models are kept for the process; the permission to use them is not."""
    far = f"hashing+{canary.model()}"
    get_embedder(far, allow_remote=True)
    asking = {"method": "ensemble", "simulator": canary.model()}
    toy_classifier(allow_remote=True, **asking)
    before = canary.received
    with pytest.raises(NotAllowed):
        get_embedder(far)
    with pytest.raises(NotAllowed):
        toy_classifier(**asking)
    assert canary.received == before


# --------------------------------------------------------------------------- servers on this machine


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_server_here_is_not_reached_through_a_proxy(
    variable: str, host: str, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, canary.url().removesuffix("/v1"))
    with Canary() as here:
        near = toy_classifier(method="centroid", embedder=f"hashing+{here.model(host)}")
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
            assert "points elsewhere" in answer.error
        assert here.received.count(b"POST ") == 4  # and it is not asked again
    assert canary.received == b""


def test_a_name_that_is_made_to_stand_for_another_machine_gets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A first answer earns no trust: every new connection is looked at."""
    address = own_address()
    with Canary("0.0.0.0") as there:
        assert len(embed_texts(OpenAIEmbedder("m", there.url("localhost")), [CASE])) == 1
        earlier = there.received
        if address is None:  # no network at all: let the connection say that its other end is elsewhere
            stream = "httpcore2._backends.sync.SyncStream.get_extra_info"
            monkeypatch.setattr(stream, lambda *_: ("192.0.2.7", 1))
        lead(monkeypatch, "localhost", address or "127.0.0.1")
        embedder = OpenAIEmbedder("m", there.url("localhost"))
        assert not embedder.remote
        with pytest.raises(RunFailed, match="on another machine"):
            embed_texts(embedder, [CASE])
        answer = ask(OpenAISimulator("m", there.url("localhost")), Request("xyzzy"))
        assert "nothing was sent" in answer.error
        assert there.received == earlier


# --------------------------------------------------------------------------- the source


NETWORK = {"openai", "httpx", "httpx2", "httpcore2", "requests", "urllib", "urllib3", "aiohttp", "http"}
NETWORK |= {"socket"}
# Who else may know of the network, and why.
KNOWN = {
    "egress.py": {"openai", "httpx2", "socket", "urllib"},  # the gate, and the parsing of addresses
    "simulators/openai.py": {"openai"},  # the kinds of errors
    "models/hub.py": {"socket"},  # weights come in: is there a network?
    "service/config.py": {"urllib"},  # the parsing of addresses
    # Key sets and attachments come in, from servers the operator named.
    "service/chart.py": {"httpx2", "urllib"},
    "service/app.py": {"socket"},  # listens
}


def test_only_the_gate_opens_connections() -> None:
    used = {name: packages(tree) & NETWORK for name, tree in trees().items()}
    # `bench` measures a service of its own, on loopback.
    assert {name: found for name, found in used.items() if found and not name.startswith("bench/")} == KNOWN


def test_whether_anything_listens_is_told_at_once() -> None:
    """Ray itself would try a dead address for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(f"127.0.0.1:{port}")
        assert listens(f"ray://127.0.0.1:{port}")
    for address in (f"127.0.0.1:{port}", "127.0.0.1", "", "ray://:x", "host:99999999"):
        assert not listens(address)
        with pytest.raises(BadInput, match="no Ray cluster answers"), connected(address, allow_remote=True):
            pass
