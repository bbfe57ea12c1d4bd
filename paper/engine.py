"""The one door from here to what simdx answers: methods, networks, the front door and models asked.

Everything the paper needs of `simdx.methods`, `simdx.classifier` and `simdx.baselines`
is called in this file and in no other, so a change of their interface is a change here."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simdx.abc.particles import multinomial_live
from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.baselines.asking import GUESSES, PARAPHRASES, UnreadableReply, read_guesses, read_letter, read_option_tokens
from simdx.baselines.by_bank import SHARE as CALIBRATION_SHARE
from simdx.baselines.by_bank import calibrated_logistic, supervised_ceiling, temperature_scaled
from simdx.embedders.base import Embedder, embed_texts
from simdx.fitting import fit_method
from simdx.methods import RECIPE_VERSION, Fitted, Observations, PanelData, Settings
from simdx.methods.logistic import choose_penalty
from simdx.simulators.base import Completion, TokenLogprobs
from simdx.types import Bank, Float, Int, Panel

__all__ = [
    "CALIBRATION_SHARE",
    "PARAPHRASES",
    "RECIPE_VERSION",
    "Fitted",
    "Observations",
    "PanelData",
    "multinomial_live",
    "supervised_ceiling",
    "temperature_scaled",
]


def fit(panel_data: PanelData, spec: object, **more: Any) -> Fitted:
    """The method a spec names, fitted; settings are the spec's fields of the same names."""
    return fit_method(panel_data, Settings.named_alike(spec, **more))


def front_door(panel: Panel, bank: Bank) -> Fitted:
    """What `simdx classify` asks as it ships."""
    from simdx.classifier import Classifier

    return Classifier(panel, bank).fitted


def none_of_these(panel_data: PanelData) -> Callable[[Observations, Prior], Float]:
    """The share of each case that the background hypothesis claims."""
    from simdx.methods.calibration import calibrated
    from simdx.methods.outside import Outside

    share = Outside.fit(calibrated(panel_data))
    assert share is not None, "the packaged banks have a background"
    return share


def embedded(embedder: Embedder, texts: list[str]) -> Float:
    return np.asarray(embed_texts(embedder, texts), dtype=float)


def space_of(panel_data: PanelData) -> Space:
    return Space.fit(panel_data.embedded, centre=False)


def simplex_draws(
    panel_data: PanelData, spec: object, prior: Prior, count: int
) -> tuple[Float, Callable[[Observations], Float]]:
    """Draws from D-SMC's prior, and a function that gives the accepted draws of one case."""
    from simdx.methods.smc import SimplexPosterior

    view = SimplexPosterior(panel_data, Settings.named_alike(spec))
    before = view.shared(prior).features[:count, : prior.probabilities.size].astype(float)
    return before, lambda seen: view.draws(seen, prior, count)


def logistic_on(vectors: Float, y: Int, rows: Int, k: int, seed: int) -> tuple[Float, float]:
    """Logistic regression on some labelled rows: probabilities of all, and a temperature that mends them."""
    penalty = choose_penalty(vectors[rows], y[rows], k, seed)
    model, temperature = calibrated_logistic(vectors[rows], y[rows], k, penalty, seed)
    return model.probabilities(vectors), temperature


def train_network(
    panel_data: PanelData, prior: Prior, folder: Path, settings: dict[str, Any], vectors: Float | None = None
) -> None:
    """On the bank, spread; or on these texts' vectors as they are."""
    from simdx.amortised.network import NETWORK_FILE, save
    from simdx.amortised.train import TrainSettings, train

    if not (folder / NETWORK_FILE).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        save(train(panel_data, TrainSettings(**settings), prior=prior, vectors=vectors, spread=vectors is None), folder)


def ask_model(
    panel_data: PanelData,
    way: str,
    simulator: str,
    texts: list[str],
    prior: Prior,
    seed: int,
    replies: Path,
    budget: int | None = None,
) -> tuple[Float, Float]:
    """A model asked about texts: its answers, and how many readable replies are behind each."""
    settings = Settings(method=way, simulator=simulator, replies=str(replies), seed=seed, budget=budget)
    fitted = fit_method(panel_data, settings)
    table = fitted.answer(panel_data.observe(texts), prior)
    return table.among_labels, table.effective_simulations


def read_reply(way: str, line: Mapping[str, Any], names: tuple[str, ...]) -> list[float] | None:
    """Scores by place in the list of options, from likeliest tokens or from words; None: it cannot be read."""
    if line.get("options") == "numbers":
        return _read_numbered(way, line, len(names))
    try:
        if way == "letters":
            top = tuple((str(token), float(logprob)) for token, logprob in line["top"])
            return read_option_tokens(Completion("", logprobs=(TokenLogprobs(*top[0], top),)), len(names))
        if way == "elicited":
            return read_guesses(line["text"], len(names), min(GUESSES, len(names)))
        chosen = read_letter(line["text"], names)
        return [float(i == chosen) for i in range(len(names))]
    except UnreadableReply:
        return None


_GUESS = re.compile(r"G\d:\s*\(?(\d)\)?\W+P\d:\s*(\d+(?:\.\d+)?)\s*%")


def _read_numbered(way: str, line: Mapping[str, Any], k: int) -> list[float] | None:
    """The same of a list of numbered options, as the paper asks (`paper.gpu`)."""
    top = [(str(token).strip(), math.exp(logprob)) for token, logprob in line.get("top", ())]
    if way == "letters":
        mass = [sum(p for token, p in top if token == str(i)) for i in range(1, k + 1)]
        # What is not listed has at most the probability of the last token that is.
        return [m or min(p for _, p in top) for m in mass] if any(mass) else None
    if way == "elicited":
        said = {int(i): float(percent) / 100 for i, percent in reversed(_GUESS.findall(line["text"]))}
        if not said or not all(1 <= i <= k for i in said) or sum(said.values()) <= 0:
            return None
        left = max(0.0, 1 - sum(said.values())) / max(k - len(said), 1)
        return [said.get(i, left) for i in range(1, k + 1)]
    chosen = re.match(r"\W*(\d)(?!\d)", line["text"])
    return None if chosen is None or not 1 <= int(chosen[1]) <= k else np.eye(k)[int(chosen[1]) - 1].tolist()
