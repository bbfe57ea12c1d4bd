"""Servers of typed decisions: asked as a method, or put behind a panel that calibrates them.

`--method systemone --simulator [MODEL@]URL` asks one; `--method upstream` (`simdx serve --upstream`) keeps
what it says and makes a calibrated answer of it.

The labels, with their descriptions, are the options of a `choice` about the case (`POST /v1/systemone`), in
several orders: over cyclic shifts every label stands at other places. Each answer is divided by the one to an
empty state in the same order, which takes out what the server prefers whatever the case says (Zhao et al.
2021, arXiv 2102.09690). Neither needs a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError
from scipy.special import softmax

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.egress import is_loopback, open_http
from simdx.errors import BadInput, RunFailed
from simdx.methods.calibration import (
    TELLING_CASES,
    HeldOutScores,
    calibrate_on,
    calibrated,
    fit_on,
    scores_of,
)
from simdx.methods.calibration_record import Calibration
from simdx.methods.experts import LogLikelihoods
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.outside import Outside
from simdx.methods.panel_data import Observations, PanelData
from simdx.methods.recipe import sharpened
from simdx.types import NONE_OF_THESE, Case, Float, Int, Posterior

ROUTE = "/v1/systemone"
ORDERS = 4  # of the options, unless --budget says otherwise: each is a question, all in one request
MOST_BYTES = 4_000_000  # of a reply
SECONDS = 120.0
FLOOR = 1e-6  # a probability that a server rounded to nought
# The same where labelled cases calibrate: a server's wrong noughts would speak against any sharpness. Chosen
# with the two panels of results/upstream in view.
TAKEN_FOR_NOUGHT = 0.01
TOGETHER = 4  # texts asked at once
UPSTREAM = "upstream"  # the voice that keeps what was said
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

    def _score(self, text: str) -> Float:
        told = self._server.ask(text, self._options, self._shifts)
        return (np.log(told) - np.log(self._unasked)).mean(axis=0)

    def cost(self) -> str | None:
        return f"{len(self._shifts)} orders of {len(self._options)} options at {self._server.url}"


class Upstream(SystemOne):
    """What a server says of the labels, recalibrated; none of these is the panel's own.

    Without labelled cases its probabilities are taken as they are. With some, sharpness and a shift for each
    label are found as those of the recipe are (`simdx.methods.calibration`); under twenty no error of the
    result can be told, so that nothing is accepted.
    """

    _least = FLOOR

    def __init__(self, data: PanelData, settings: Settings) -> None:
        data = calibrated(data)
        super().__init__(data, settings)
        self._shifts = (0,)
        self._outside = Outside.fit(data)
        self.none_of_these = self._outside is not None
        known = data.calibration or Calibration()
        self.calibration = Calibration(outside=known.outside, world=known.world, sharpness=1.0)

    def measure(self, cases: Sequence[Case]) -> None:
        """Calibrate on labelled cases, those of none of the labels named so."""
        names = self.data.panel.names
        inside = [case for case in cases if case.label != NONE_OF_THESE]
        truth = np.array([names.index(str(case.label)) for case in inside], dtype=np.int64)
        others = [case.text for case in cases if case.label == NONE_OF_THESE]
        asked = self.scores(self.data.observe([case.text for case in inside]), truth)
        self.take(asked, self.scores(self.data.observe(others)) if others else None)

    def take(self, asked: HeldOutScores, beyond: HeldOutScores | None) -> None:
        assert self.calibration is not None
        self._least = TAKEN_FOR_NOUGHT
        enough = len(asked.label_index) >= TELLING_CASES
        self.calibration = (calibrate_on if enough else fit_on)(asked, self.calibration, beyond)
        if self._outside is not None:
            self._outside = replace(self._outside, calibration=self.calibration)

    def scores(self, observations: Observations, truth: Int | None = None) -> HeldOutScores:
        """What the server says of the labels, and the panel of none of these."""
        told = np.log(np.maximum(self.said(observations.texts), TAKEN_FOR_NOUGHT))
        found = scores_of(self.data, observations, truth)
        return replace(found, likelihood=told, second=None, kernel=None, direction=None)

    def said(self, texts: Sequence[str]) -> Float:
        with ThreadPoolExecutor(TOGETHER) as several:
            return np.concatenate(
                list(several.map(lambda text: self._server.ask(text, self._options), texts))
            )

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        assert self.calibration is not None
        told, n = self.said(observations.texts), len(observations.texts)
        log_likelihood = LogLikelihoods(np.log(np.maximum(told, self._least)))
        posterior = sharpened(log_likelihood, prior.probabilities, self.calibration)
        return Inferred(Posterior(posterior, np.zeros(n), np.full(n, np.nan)), voices={UPSTREAM: told})

    def out_of_class(self, observations: Observations, prior: Prior) -> Float | None:
        return None if self._outside is None else self._outside(observations, prior)
