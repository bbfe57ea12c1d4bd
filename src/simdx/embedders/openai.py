"""Embeddings from any OpenAI-compatible endpoint, with the retry policy of the simulators.

Text sent to a host that is not this machine leaves it: `remote` says so, and the client is made by
`simdx.egress`, which asks for permission.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from pydantic import BaseModel, ValidationError

from simdx.errors import RunFailed
from simdx.simulators.openai import Lasting, OpenAIServer, Passing, call
from simdx.types import Float

TEXTS_PER_REQUEST = 64  # well under what common servers take in one request


class _Item(BaseModel):
    index: int
    embedding: list[float]


class _Reply(BaseModel):
    data: list[_Item]


class OpenAIEmbedder(OpenAIServer):
    """The width of its vectors is asked of the server once, when it is first needed."""

    remote: bool  # True away from loopback: the server's constructor says it

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        return (self._ask(["width"]).shape[1],)

    def embed_batch(self, texts: Sequence[str]) -> Float:
        starts = range(0, len(texts), TEXTS_PER_REQUEST)
        parts = [self._ask(list(texts[i : i + TEXTS_PER_REQUEST])) for i in starts]
        return np.concatenate(parts) if parts else np.zeros((0, *self.blocks), dtype=np.float32)

    def _ask(self, texts: list[str]) -> Float:
        try:
            return self._retry.run(lambda: self._once(texts))
        except (Passing, Lasting) as problem:
            raise RunFailed(f"embedder '{self.id}' failed: {problem}") from None

    def _once(self, texts: list[str]) -> Float:
        # An empty text is refused by some servers; a blank is the closest thing to it.
        asked = {"model": self.model, "input": [text or " " for text in texts], "encoding_format": "float"}
        raw = call(self._client.embeddings.with_raw_response.create, **asked)
        try:
            items = sorted(_Reply.model_validate_json(raw).data, key=lambda item: item.index)
            vectors = np.array([item.embedding for item in items], dtype=np.float32)
        except (ValidationError, ValueError):
            raise Passing("the server's reply is not a list of embeddings") from None
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise Passing("the server's reply does not hold one finite embedding per text")
        return vectors
