"""Encoders of sentences: MiniLM in onnxruntime; by sentence-transformers mpnet, any folder or hub name."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from simdx.disk import read_safetensors
from simdx.embedders.base import embed_halved
from simdx.errors import BadInput, MissingExtra
from simdx.models import REGISTRY
from simdx.models.fetch import locate
from simdx.models.hub import hub, may_ask
from simdx.models.registry import sha256
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
        if find_spec("sentence_transformers") is None:
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


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


# --------------------------------------------------------------------------- MiniLM
#
# The graph is BERT's six layers with mean pooling, as sentence-transformers runs them; a test holds the
# vectors against its own. It is written here, so that the weights are the only file to trust. onnxruntime
# takes a third of numpy's time a text, and no torch is imported; a graphics card is left to torch.


LAYERS, HEADS, WIDTH, WINDOW = 6, 12, 384, 256
TEXTS_AT_ONCE = 16  # of nearly the same length, so that little is padded
MANY = 64  # texts worth the start of torch, where there is a graphics card


def can_run() -> bool:
    return find_spec("onnxruntime") is not None and find_spec("onnx") is not None


class MiniLMEmbedder:
    """all-MiniLM-L6-v2; pieces longer than its window are halved until they fit."""

    remote = False
    blocks = (WIDTH,)
    id = f"minilm/{REGISTRY['minilm'].files['model.safetensors'][:12]}"

    def __init__(self) -> None:
        if not can_run():
            raise MissingExtra("embedder 'minilm'", "quality")
        folder = locate("minilm")
        from tokenizers import Tokenizer

        weights = dict(read_safetensors(folder / "model.safetensors"))
        # Every token is of the first kind, so what that adds is added to the places once.
        self._places = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._session = _session(weights)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed_batch(self, texts: Sequence[str]) -> Float:
        if len(texts) > MANY and self._on_gpu is not None:
            return self._on_gpu.embed_batch(texts)
        return embed_halved(texts, WIDTH, self._fits, self._encode)

    @cached_property
    def _on_gpu(self) -> SentenceEmbedder | None:
        """The encoder on a graphics card, where there is one; else torch is not even imported."""
        here = shutil.which("nvidia-smi") is not None and find_spec("sentence_transformers") is not None
        return SentenceEmbedder("minilm") if here and _device() == "cuda" else None

    def _fits(self, text: str) -> bool:
        certain = text.isascii() and len(text) <= WINDOW - 2  # at most a token a character, and two marks
        return certain or len(self._tokenizer.encode(text)) <= WINDOW

    def _encode(self, texts: Sequence[str]) -> Float:
        """Unit vectors."""
        tokens = [found.ids for found in self._tokenizer.encode_batch(list(texts))]
        if len(tokens) == 1:
            return self._vectors(tokens)
        out = np.empty((len(texts), WIDTH), dtype=np.float32)
        order = np.argsort([len(ids) for ids in tokens], kind="stable")
        for start in range(0, len(order), TEXTS_AT_ONCE):
            rows = order[start : start + TEXTS_AT_ONCE]
            out[rows] = self._vectors([tokens[i] for i in rows])
        return out

    def _vectors(self, tokens: list[list[int]]) -> Float:
        """(texts, WIDTH) of what is padded to the longest."""
        lengths = [len(ids) for ids in tokens]
        longest = max(lengths)
        padded = np.zeros((len(tokens), longest), dtype=np.int64)
        share = np.zeros((len(tokens), 1, longest), dtype=np.float32)  # of each token in the mean
        for row, own, ids, length in zip(padded, share[:, 0], tokens, lengths, strict=True):
            row[:length] = ids
            own[:length] = 1 / length
        asked = {
            "tokens": padded,
            "places": self._places[:longest],
            "lengths": np.array(lengths, dtype=np.int32),
            "share": share,
        }
        return self._session.run(None, asked)[0]


def _session(weights: dict[str, Float]) -> Any:
    """The graph with its weights, which stay outside of it and are not copied."""
    import onnxruntime

    graph, held = _graph(weights)
    options = onnxruntime.SessionOptions()
    # Higher levels join sums and norms into SkipLayerNormalization, which runs on one core and is slower.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # A thread waits so long for the next operator and then sleeps: cores are left to others between texts.
    options.add_session_config_entry("session.intra_op.spin_duration_us", "20")
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in held.values()]
    options.add_external_initializers(list(held), values)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _graph(weights: dict[str, Float]) -> tuple[bytes, dict[str, Float]]:
    """BERT in onnxruntime's fused operators, and the weights that it names."""
    from onnx import TensorProto, helper

    nodes: list[Any] = []
    held: dict[str, Float] = {}

    def node(operator: str, inputs: list[str], **attributes: Any) -> str:
        domain = "com.microsoft" if operator in ("Attention", "BiasGelu") else ""
        made = helper.make_node(operator, inputs, [f"x{len(nodes)}"], domain=domain, **attributes)
        nodes.append(made)
        return made.output[0]

    def weight(name: str, array: Float) -> str:
        held[name] = np.ascontiguousarray(array)
        return name

    def named(name: str) -> str:
        return weight(name, weights[name])

    def product(x: str, name: str) -> str:
        return node("MatMul", [x, weight(f"{name}.weight", weights[f"{name}.weight"].T)])

    def normed(x: str, name: str, *beside: str) -> str:
        for other in beside:
            x = node("Add", [x, other])
        norm = [named(f"{name}.LayerNorm.weight"), named(f"{name}.LayerNorm.bias")]
        return node("LayerNormalization", [x, *norm], epsilon=1e-12)

    word = node("Gather", [named("embeddings.word_embeddings.weight"), "tokens"])
    x = normed(word, "embeddings", "places")
    for layer in range(LAYERS):
        here = f"encoder.layer.{layer}"
        sides = [f"{here}.attention.self.{side}" for side in ("query", "key", "value")]
        joined = weight(f"{here}.sides.weight", np.concatenate([weights[f"{s}.weight"] for s in sides]).T)
        bias = weight(f"{here}.sides.bias", np.concatenate([weights[f"{s}.bias"] for s in sides]))
        heard = node("Attention", [x, joined, bias, "lengths"], num_heads=HEADS)
        told = product(heard, f"{here}.attention.output.dense")
        x = normed(told, f"{here}.attention.output", named(f"{here}.attention.output.dense.bias"), x)
        wide = product(x, f"{here}.intermediate.dense")
        bent = node("BiasGelu", [wide, named(f"{here}.intermediate.dense.bias")])
        told = product(bent, f"{here}.output.dense")
        x = normed(told, f"{here}.output", named(f"{here}.output.dense.bias"), x)

    # The mean over a text's own tokens, at unit length.
    mean = node("MatMul", ["share", x])
    unit = node("Reshape", [node("LpNormalization", [mean], axis=-1, p=2), "width"])

    outside = [TensorProto(name=name, data_type=TensorProto.FLOAT, dims=a.shape) for name, a in held.items()]
    for tensor in outside:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="given to the session")
    width = helper.make_tensor("width", TensorProto.INT64, [2], [-1, WIDTH])
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["n", "t"]),
        helper.make_tensor_value_info("places", TensorProto.FLOAT, ["t", WIDTH]),
        helper.make_tensor_value_info("lengths", TensorProto.INT32, ["n"]),
        helper.make_tensor_value_info("share", TensorProto.FLOAT, ["n", 1, "t"]),
    ]
    output = helper.make_tensor_value_info(unit, TensorProto.FLOAT, ["n", WIDTH])
    graph = helper.make_graph(nodes, "minilm", inputs, [output], [*outside, width])
    operators = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=operators, ir_version=8).SerializeToString(), held
