"""A server of typed decisions as a method: `--method systemone --simulator [MODEL@]URL`.

The labels, with their descriptions, are the options of a `choice` about the case (`POST /v1/systemone`), in
several orders: over cyclic shifts every label stands at other places. Each answer is divided by the one to an
empty state in the same order, which takes out what the server prefers whatever the case says (Zhao et al.
2021, arXiv 2102.09690). Neither needs a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError
from scipy.special import softmax

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.egress import is_loopback, open_http
from simdx.errors import BadInput, RunFailed
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.types import Float

ROUTE = "/v1/systemone"
ORDERS = 4  # of the options, unless --budget says otherwise: each is a question, all in one request
MOST_BYTES = 4_000_000  # of a reply
SECONDS = 120.0
FLOOR = 1e-6  # a probability that a server rounded to nought
EMPTY = ("", "N/A")  # the second where a server refuses the first


class _Choice(BaseModel):
    type: Literal["choice"]
    probabilities: Annotated[dict[str, Annotated[float, Field(ge=0, le=1)]], Field(max_length=255)]


class _Reply(BaseModel):
    answers: Annotated[dict[str, _Choice], Field(max_length=64)]


class Refused(RunFailed):
    """The server understood, and did not answer."""


class Server:
    """A decision server, asked for the probabilities of options in several orders."""

    def __init__(self, named: str, allow_remote: bool) -> None:
        model, _, url = named.rpartition("@")
        if not url.startswith(("http://", "https://")):
            raise BadInput("--method systemone needs a server: --simulator http://host:port, or MODEL@URL")
        self.model, self.url = model or "jev-latest", url.rstrip("/").removesuffix("/v1")
        self.remote = not is_loopback(self.url)
        self._client = open_http(self.url, SECONDS, allow_remote)

    def ask(self, state: str, options: dict[str, str | None], shifts: Sequence[int] = (0,)) -> Float:
        """(orders, options) probabilities, columns in the order of `options`."""
        names = list(options)
        questions = {
            f"order {shift}": {
                "type": "choice",
                "instructions": "Which of these does the text describe?",
                "criteria": {name: options[name] for name in names[shift:] + names[:shift]},
            }
            for shift in shifts
        }
        body = {"model": self.model, "state": state, "questions": questions}
        try:
            reply = self._client.post(ROUTE, json=body)
        except Exception as error:  # its message may quote the request
            raise RunFailed(f"the server at {self.url} did not answer ({type(error).__name__})") from None
        if reply.status_code != 200:
            raise Refused(f"the server at {self.url} answered with status {reply.status_code}")
        return self._read(reply.content, list(questions), names)

    def _read(self, body: bytes, asked: Sequence[str], names: Sequence[str]) -> Float:
        said = f"the server at {self.url} answered in another shape"
        try:
            answers = _Reply.model_validate_json(body[: MOST_BYTES + 1]).answers
            found = [[answers[question].probabilities[name] for name in names] for question in asked]
        except (ValidationError, KeyError):
            raise RunFailed(said) from None
        out = np.maximum(np.array(found, dtype=float), FLOOR)
        if any(len(answers[question].probabilities) != len(names) for question in asked):
            raise RunFailed(said)
        return out / out.sum(axis=1, keepdims=True)


class SystemOne(Fitted):
    speed = "slow"
    proportional = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        self._server = Server(settings.simulator or "", settings.allow_remote)
        self.remote = self.remote or self._server.remote
        labels = data.panel.labels
        self._options = {label.name: " ".join(label.description.split()) or None for label in labels}
        n = min(len(labels), settings.budget or ORDERS)
        self._shifts = tuple(i * len(labels) // n for i in range(n))

    @cached_property
    def _unasked(self) -> Float:
        """(orders, options) what the server answers when there is no case; even where it answers nothing."""
        for state in EMPTY:
            try:
                return self._server.ask(state, self._options, self._shifts)
            except Refused:
                continue
        return np.full((len(self._shifts), len(self._options)), 1 / len(self._options))

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        scores = np.stack([self._score(text) for text in observations.texts])
        return Inferred(posterior_of(softmax(scores, axis=1), prior, carried_by=0.0))

    def _score(self, text: str) -> Any:
        told = self._server.ask(text, self._options, self._shifts)
        return (np.log(told) - np.log(self._unasked)).mean(axis=0)

    def cost(self) -> str | None:
        return f"{len(self._shifts)} orders of {len(self._options)} options at {self._server.url}"
