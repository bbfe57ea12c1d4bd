"""The OpenAI-compatible client against a server that fails in every way a build of hours will meet."""

import threading

import numpy as np
import pytest

from simdx.embedders.base import embed_texts
from simdx.embedders.openai import OpenAIEmbedder
from simdx.simulators.base import Request, ask, ask_all
from simdx.simulators.openai import OpenAISimulator, Passing, RetryPolicy, asked_wait
from tests.simulators.faults import FaultyServer

QUICK = RetryPolicy(attempts=5, first_wait=0.01, longest_wait=0.05)


def client(server: FaultyServer, **options: object) -> OpenAISimulator:
    options = {"retry": QUICK, "timeout": 0.5, **options}
    return OpenAISimulator("any", server.url, **options)


@pytest.mark.parametrize(
    "fault", ["429", "429:0.05", "500", "503", "hang", "reset", "half", "malformed", "wrong"]
)
def test_a_passing_fault_is_asked_again_and_answered(fault: str) -> None:
    with FaultyServer([fault, fault]) as server:
        answer = ask(client(server), Request("two days of a dull ache in the jaw"))
        assert answer.ok
        assert answer.text.startswith("It has hurt since")
        assert answer.prompt_tokens > 0
        assert server.seen == 3


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "422"])
def test_a_lasting_fault_is_final_and_quotes_nothing(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMDX_API_KEY", "sk-very-secret")
    with FaultyServer([status] * 9) as server:
        answer = ask(client(server), Request("a private text"))
        assert server.headers[0]["authorization"] == "Bearer sk-very-secret"
        assert server.seen == 1
    assert status in answer.error
    assert "secret" not in answer.error
    assert "private" not in answer.error


def test_retries_are_bounded_and_wait_as_long_as_they_are_told() -> None:
    with FaultyServer(["429:0.4"]) as server:
        assert ask(client(server), Request("x")).ok
        assert server.times[1] - server.times[0] >= 0.4
    with FaultyServer(["503"] * 99) as server:
        assert ask(client(server), Request("x")).error == "the server answered HTTP 503"
        assert server.seen == QUICK.attempts
    with FaultyServer(["empty"]) as server:
        assert ask(client(server), Request("x")).text
    with FaultyServer(["empty"] * 9) as server:  # and then believed
        answer = ask(client(server), Request("x"))
        assert (answer.ok, answer.text, server.seen) == (True, "", 3)


def test_one_bad_request_does_not_end_a_batch() -> None:
    faults = ["ok", "400", "reset", "500", "malformed", "429:0.02", "ok", "hang"]
    with FaultyServer(faults) as server:
        answers = ask_all(client(server, concurrency=3), [Request(f"complaint {i}") for i in range(12)])
    assert sorted(a.ok for a in answers) == [False] + [True] * 11
    with FaultyServer(delay=0.02) as server:  # requests under way are bounded
        ask_all(client(server, concurrency=3, timeout=5.0), [Request(str(i)) for i in range(20)])
        assert server.most_at_once == 3


def test_a_server_that_dies_and_comes_back() -> None:
    with FaultyServer() as server:
        simulator = client(server, retry=RetryPolicy(attempts=12, first_wait=0.05, longest_wait=0.2))
        assert ask(simulator, Request("before")).ok
        server.stop()
        threading.Timer(0.5, server.start).start()
        answers = ask_all(simulator, [Request(f"during {i}") for i in range(4)])
        assert all(a.ok for a in answers)


def test_capabilities_are_probed_not_assumed() -> None:
    with FaultyServer() as server:
        found = client(server).capabilities
    # The canned server ignores seeds: every one gives the same text.
    assert (found.logprobs, found.grammars, found.seeds) == (False, False, False)


def test_waits_take_every_form_grow_and_stay_bounded() -> None:
    assert asked_wait({"retry-after": "2.5"}) == 2.5
    assert asked_wait({"retry-after": "nonsense"}) is None
    assert asked_wait({}) is None
    assert asked_wait({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    # a server with another clock is waited for by its own
    headers = {"date": "Fri, 02 Jan 1970 00:00:00 GMT", "retry-after": "Fri, 02 Jan 1970 00:00:07 GMT"}
    assert asked_wait(headers) == 7.0
    assert asked_wait({**headers, "date": "nonsense"}) == 0.0
    waits: list[float] = []

    def attempt() -> None:
        raise Passing("no")

    policy = RetryPolicy(attempts=8, first_wait=0.5, longest_wait=4.0)
    with pytest.raises(Passing):
        policy.run(attempt, waits.append)
    assert len(waits) == 7
    assert all(0.25 <= wait <= 4.0 for wait in waits)
    assert waits[-1] >= 2.0


def test_embeddings_survive_faults_and_keep_their_order() -> None:
    with FaultyServer(["429", "malformed", "wrong"]) as server:
        embedder = OpenAIEmbedder("any", server.url, timeout=0.5, retry=QUICK)
        assert embedder.blocks == (3,)
        vectors = embed_texts(embedder, ["a", "four", "a much longer text"])
    lengths = vectors[:, 0] / vectors[:, 1]
    assert np.allclose(lengths, [1, 4, 18], rtol=1e-5)
    assert not embedder.remote
