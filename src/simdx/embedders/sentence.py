"""Sentence-transformers encoders: mpnet by name, any local folder or hub name otherwise."""

import importlib.util
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from simdx.embedders.base import embed_halved
from simdx.errors import BadInput, MissingExtra
from simdx.models import REGISTRY
from simdx.models.fetch import locate
from simdx.models.hub import hub, may_ask
from simdx.models.verify import sha256
from simdx.types import Float


class SentenceEmbedder:
    """Wraps a SentenceTransformer; pieces longer than its window are halved until they fit."""

    remote = False  # weights may come from a hub; texts stay here

    def __init__(self, name: str, *, allow_remote: bool = False) -> None:
        if name not in REGISTRY and "/" not in name and not os.path.isdir(name):
            # A hub name has an owner: a bare word is a slip, and must not be looked for on the network.
            known = ", ".join(n for n, weights in REGISTRY.items() if weights.kind == "embedder")
            raise BadInput(
                f"unknown embedder '{name[:60]}': choose {known} or hashing, a sentence-transformers folder, "
                "a hub name OWNER/NAME, or openai:MODEL@URL"
            )
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtra(f"embedder '{name}'", "sentence")
        folder = locate(name) if name in REGISTRY else None  # refuse bad weights before the slow import
        weights = Path(name) / "model.safetensors"
        self.id = f"sentence/{name}" + (f"@{sha256(weights)[:12]}" if weights.is_file() else "")
        if folder is not None:
            self.id = f"{name}/{REGISTRY[name].files['model.safetensors'][:12]}"
        here = folder is not None or os.path.isdir(name)
        asking = not here and may_ask(name, allow_remote)
        with hub(allowed=asking):
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging

            # Loading notes and progress bars of the libraries would land in our stderr.
            transformers_logging.disable_progress_bar()
            logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
            try:
                self.model = SentenceTransformer(
                    str(folder or name), device=_device(), local_files_only=not asking
                )
            except Exception as error:  # the library raises many kinds for "no such model"
                if folder is not None:
                    raise
                why = f"'{name[:80]}' could not be loaded ({type(error).__name__})"
                raise BadInput(f"embedder {why}: give a sentence-transformers folder or hub name") from None
        dim = self.model.get_embedding_dimension()
        assert dim is not None
        self.blocks = (int(dim),)

    def embed_batch(self, texts: Sequence[str]) -> Float:
        return embed_halved(texts, self.blocks[0], self._fits, self._encode)

    def _fits(self, text: str) -> bool:
        tokens = self.model.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        return len(tokens) <= (self.model.max_seq_length or 256)

    def _encode(self, texts: list[str]) -> Float:
        return self.model.encode(
            texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
        )


def on_gpu(name: str) -> SentenceEmbedder | None:
    """The encoder on a graphics card, where there is one; else torch is not even imported."""
    here = shutil.which("nvidia-smi") is not None and importlib.util.find_spec("sentence_transformers")
    return SentenceEmbedder(name) if here and _device() == "cuda" else None


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
