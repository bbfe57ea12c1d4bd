"""GLiClass: a case and all labels read in one pass of a small encoder. Nothing is simulated.

The model is one by hub name (OWNER/NAME, with @REVISION where it is to be pinned) or folder: it runs on this
machine, and only its weights may come from the hub, with `--allow-remote` (Stepanov et
al. 2025, arXiv 2508.07662).
"""

from __future__ import annotations

import numpy as np

from simdx.abc.prior import Prior
from simdx.baselines.by_bank import posterior_of
from simdx.methods.fitted import Fitted, Inferred, Settings
from simdx.methods.panel_data import Observations, PanelData
from simdx.models.hub import hub
from simdx_contrib.entailment import hub_model, reading

MOST_TOKENS = 1024  # as the library has it


class GliClass(Fitted):
    speed = "slow"
    proportional = True

    def __init__(self, data: PanelData, settings: Settings) -> None:
        super().__init__(data)
        named = hub_model("gliclass", settings)
        with reading("gliclass", named.name), hub(allowed=named.from_hub):
            from gliclass import GLiClassModel, ZeroShotClassificationPipeline
            from transformers import AutoTokenizer
            from transformers.utils import logging

            logging.disable_progress_bar()
            logging.set_verbosity_error()  # it warns of the library's own calls, with every model
            self._tokenizer = AutoTokenizer.from_pretrained(named.name, **named.options)
            model = GLiClassModel.from_pretrained(named.name, use_safetensors=True, **named.options)
        window = min(MOST_TOKENS, self._tokenizer.model_max_length)
        labels = "".join(f"<<LABEL>>{name}" for name in data.panel.names) + "<<SEP>>"
        # A long case is cut; the labels, which may stand behind it, are not.
        self._left = max(window - len(self._tokenizer(labels)["input_ids"]), 1)
        self._pipeline = ZeroShotClassificationPipeline(
            model, self._tokenizer, max_length=window, classification_type="single-label", device="cpu",
            progress_bar=False,
        )  # fmt: skip

    def infer(self, observations: Observations, prior: Prior) -> Inferred:
        names = list(self.data.panel.names)
        scores = np.zeros((0, len(names)))
        if texts := list(observations.texts):
            cut = {"truncation": True, "max_length": self._left, "return_offsets_mapping": True}
            tokens = self._tokenizer(texts, add_special_tokens=False, **cut)
            ends = [places[-1][1] if places else 0 for places in tokens["offset_mapping"]]
            whole = [text[:end] for text, end in zip(texts, ends, strict=True)]
            found = self._pipeline(whole, names, return_hierarchical=True)
            scores = np.array([[row[name] for name in names] for row in found])
        return Inferred(posterior_of(scores, prior, carried_by=0.0))
