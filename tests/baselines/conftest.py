"""A simulator that answers multiple-choice prompts by rule, with log-probabilities, and counts its calls."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdx.methods import PanelData
from simdx.simulators.base import Capabilities, Completion, Request, TokenLogprobs, failed, stream
from simdx.types import Float
from tests import builders


class WordDensity:
    """A density over words: one that the prompt holds is nine times as probable. It counts what it scores."""

    remote = False
    quick = False
    id = "words"

    def __init__(self) -> None:
        self.scored: list[str] = []

    def score(self, prompts: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, Float, int]]:
        for i, text in enumerate(texts):
            self.scored.append(text)
            words = text.lower().split()
            rows = [[math.log(0.09 if w.strip(".,") in p.lower() else 0.01) for w in words] for p in prompts]
            yield i, np.array([math.fsum(row) for row in rows]), len(words)


class Oracle:
    """Prefers the option one of whose words is in the case, and the first place of the list by `bias`."""

    id = "oracle"
    remote = False
    lockstep = False

    def __init__(
        self,
        *,
        answer: Callable[[Request], str] | None = None,
        bias: float = 0.0,
        logprobs: bool = True,
        grammars: bool = False,
        concurrency: int = 3,
        fail: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self.concurrency = concurrency
        self.capabilities = Capabilities(logprobs, grammars, seeds=True, system_prompts=True)
        self.asked: list[Request] = []
        self._answer, self._bias, self._fail = answer, bias, fail

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        return stream(requests, self._reply, self.concurrency)

    def close(self) -> None:
        return None

    def _reply(self, request: Request) -> Completion:
        self.asked.append(request)
        if self._fail(len(self.asked)):
            return failed("the server is gone")
        options = re.findall(r"^([A-Z])\. (.+)$", request.prompt, flags=re.M)
        if not options:
            return Completion("words", "stop", len(request.prompt) // 4, 1, 0.01)
        case = request.prompt.split("Possible diagnoses")[0]
        weights = [1.0 + 8.0 * (name in case) for _, name in options]
        weights[0] += self._bias
        pairs = zip(options, weights, strict=True)
        top = tuple((letter, math.log(w / sum(weights))) for (letter, _), w in pairs)
        best = max(top, key=lambda t: t[1])[0]
        text = self._answer(request) if self._answer else best
        said = (TokenLogprobs(best, 0.0, top),)
        return Completion(text, "stop", len(request.prompt) // 4, 1, 0.01, logprobs=said)


@pytest.fixture
def toy(private_home: object) -> PanelData:
    return builders.panel_data()


def _tiny_bert(words: list[str], **more: Any) -> tuple[Any, Any]:
    """The settings of a few thousand weights, and a tokenizer of these words."""
    from transformers import BertConfig, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "apple", "river", "engine"]
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, **more,
    )  # fmt: skip
    return config, BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, model_max_length=32)


def _saved(make: Callable[[], Any], tokenizer: Any, folder: Path) -> str:
    """A model of random weights, the same ones each time, as a folder that its library loads."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        make().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def tiny_nli(folder: Path, labels: tuple[str, ...] = ("contradiction", "neutral", "entailment")) -> str:
    from transformers import BertForSequenceClassification

    names = dict(enumerate(labels))
    said = ["this", "text", "is", "about", ".", "red", "water", "motor"]
    config, tokenizer = _tiny_bert(said, id2label=names, label2id={name: i for i, name in names.items()})
    return _saved(lambda: BertForSequenceClassification(config), tokenizer, folder)


def tiny_gliclass(folder: Path) -> str:
    from gliclass import GLiClassModel, GLiClassModelConfig

    marks = ["<<LABEL>>", "<<SEP>>", "<<EXAMPLE>>"]
    encoder, tokenizer = _tiny_bert(
        [*marks, "red", "water", "motor"], max_position_embeddings=32, initializer_range=0.5
    )
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    places = zip(("class", "text", "example"), tokenizer.convert_tokens_to_ids(marks), strict=True)
    config = GLiClassModelConfig(
        encoder_config=encoder, encoder_model="tiny", initializer_range=0.2,
        **{f"{name}_token_index": place for name, place in places},
    )  # fmt: skip
    return _saved(lambda: GLiClassModel(config), tokenizer, folder)
