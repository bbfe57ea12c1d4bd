"""Zero-shot by entailment: does a case imply "This text is about LABEL."? Nothing is simulated.

The model is an NLI classifier by hub name or folder, given with `--simulator`: it runs on this machine, and
only its weights may come from the hub, with `--allow-remote` (Yin et al. 2019, arXiv 1909.00161).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.errors import BadInput, MissingExtra
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.models.hub import hub, may_ask

HYPOTHESIS = "This text is about {}."
BATCH = 16


class Entailment(Fitted):
    speed = "slow"
    proportional = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        named = hub_model("nli", settings)
        with reading("nli", named.name), hub(allowed=named.from_hub):
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
            from transformers.utils import logging

            logging.disable_progress_bar()
            self._tokenizer = AutoTokenizer.from_pretrained(named.name, **named.options)
            self._model = AutoModelForSequenceClassification.from_pretrained(
                named.name, use_safetensors=True, **named.options
            ).eval()
        named_labels = self._model.config.label2id.items()
        entails = [int(i) for label, i in named_labels if str(label).lower().startswith("entail")]
        if not entails:
            raise BadInput(f"model '{named.name[:80]}' is no NLI classifier: it has no entailment label")
        self._entails = entails[0]

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        import torch

        names = self.data.panel.names
        pairs = [(text, HYPOTHESIS.format(name)) for text in observations.texts for name in names]
        # A case longer than the window is cut, its hypothesis is not.
        how = {"padding": True, "truncation": "only_first", "max_length": 512, "return_tensors": "pt"}
        logits = np.zeros(len(pairs))
        for start in range(0, len(pairs), BATCH):
            cases, hypotheses = (list(side) for side in zip(*pairs[start : start + BATCH], strict=True))
            with torch.no_grad():
                found = self._model(**self._tokenizer(cases, hypotheses, **how)).logits
            logits[start : start + BATCH] = found[:, self._entails].numpy()
        scores = softmax(logits.reshape(-1, len(names)), axis=1)
        return Inferred(posterior_of(scores, prior, carried_by=0.0))


# --------------------------------------------------------------------------- models by name


class Named(NamedTuple):
    name: str
    options: dict[str, str]
    from_hub: bool


def hub_model(method: str, settings: Settings) -> Named:
    """A folder, or with permission OWNER/NAME on the hub, with @REVISION where it is to be pinned."""
    given = settings.simulator
    if given is None:
        raise BadInput(
            f"--method {method} needs a model: --simulator OWNER/NAME@REVISION on the hub, or its folder"
        )
    if os.path.isdir(given):
        return Named(given, {}, from_hub=False)
    name, _, revision = given.partition("@")
    asked = may_ask(name, settings.allow_remote)
    return Named(name, {"revision": revision} if revision else {}, from_hub=asked)


@contextmanager
def reading(method: str, name: str) -> Iterator[None]:
    """What a library says of a model that it lacks or cannot read, in one line."""
    try:
        yield
    except ImportError:
        extra = "gliclass" if method == "gliclass" else "transformers"
        raise MissingExtra(f"--method {method}", extra) from None
    except (OSError, ValueError, TypeError) as error:  # the last where it is a model of another kind
        raise BadInput(f"model '{name[:80]}' could not be loaded ({type(error).__name__})") from None
