"""Names that people type: models, panels, data sets, servers. Known, or refused in one line."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx.datasets import open_data
from simdx.embedders import get_embedder
from simdx.models import REGISTRY, describe
from simdx.models.fetch import locate
from simdx.panels import load_panel
from simdx.simulators import get_simulator, identity_of
from simdx.simulators.endpoints import open_endpoints
from tests.properties.strategies import accepted, bounded, broken_texts, texts

PREFIXES = (
    "", "openai:", "openai:m@", "openai:m@http://", "scripted:", "hashing+", "./", "~/", "/", "sentence:",
)  # fmt: skip
names = st.one_of(
    st.tuples(st.sampled_from(PREFIXES), st.one_of(texts, broken_texts)).map("".join),
    st.sampled_from(["a" * 5000, "nul\\0name", "..", "", " ", "x.gguf", "scripted:reject=2", "openai:@:x"]),
)
ASK: dict[str, Callable[[str], Any]] = {
    "a simulator": get_simulator,
    "its identity": identity_of,
    "an embedder": get_embedder,
    "a panel": load_panel,
    "a data set": open_data,
    "servers": lambda name: open_endpoints([name, name]),
    "weights": lambda name: locate(name, download=False),
}


@pytest.mark.parametrize("what", ASK)
@bounded
@given(name=names)
def test_any_name(private_home: object, what: str, name: str) -> None:
    if name.startswith("hf:") or name in REGISTRY or name in ("oral-lesions", "symptom-to-diagnosis"):
        return  # these load or fetch something large
    if what == "an embedder" and "/" in name and not name.startswith("openai:"):
        return  # OWNER/NAME, which is asked of the hub
    found = accepted(lambda: ASK[what](name))
    if hasattr(found, "close"):
        found.close()


@bounded
@given(texts)
def test_only_the_registry_is_described(name: str) -> None:
    assert (accepted(lambda: describe(name)) is not None) == (name in REGISTRY)
