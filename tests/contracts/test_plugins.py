"""A package of somebody else adds a method, an embedder and a simulator by entry points alone."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simdx import BadInput, plugins
from simdx.embedders import get_embedder
from simdx.fitting import methods
from simdx.simulators import Request, get_simulator, identity_of
from simdx.types import Panel
from tests.builders import toy_classifier

CODE = """
    import numpy as np
    from simdx.embedders.base import HashingEmbedder
    from simdx.methods.fitted import Fitted, Inferred
    from simdx.simulators.scripted import ScriptedSimulator
    from simdx.types import Posterior


    class Shares(Fitted):
        '''The share of each label in the bank, whatever the case says.'''

        def __init__(self, data, settings):
            super().__init__(data)

        def infer(self, observations, prior):
            share = np.bincount(self.data.bank.label_index).astype(float)
            share, n = share / share.sum(), len(observations.texts)
            return Inferred(Posterior(np.tile(share, (n, 1)), np.full(n, np.nan), np.full(n, np.nan)))


    class Embedder(HashingEmbedder):
        name = "their-vectors"


    def simulator(rest, **options):
        return ScriptedSimulator(**options)
"""
POINTS = """
    [simdx.methods]
    shares = their_package:Shares
    auto = their_package:Shares
    broken = their_package:Missing
    [simdx.embedders]
    their-vectors = their_package:Embedder
    [simdx.simulators]
    theirs = their_package:simulator
"""


@pytest.fixture
def their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installed as pip would leave it: a module, and a folder of metadata with its entry points."""
    (tmp_path / "their_package.py").write_text(textwrap.dedent(CODE))
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(POINTS))
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.named.cache_clear()
    yield
    plugins.named.cache_clear()
    sys.modules.pop("their_package", None)


@pytest.mark.usefixtures("their_package")
class TestTheirPackage:
    def test_its_method_answers(self, toy_panel: Panel) -> None:
        assert "shares" in methods()
        shares = toy_classifier(method="shares").predict_proba(["anything"])
        np.testing.assert_allclose(shares, 1 / len(toy_panel.names))

    def test_its_embedder_embeds(self) -> None:
        assert get_embedder("their-vectors").name == "their-vectors"
        assert toy_classifier(embedder="their-vectors").infer("red apple").label

    def test_its_simulator_writes(self) -> None:
        assert identity_of("theirs:fast") == "theirs:fast"
        [text] = get_simulator("theirs:fast").complete([Request("Describe a case of gout.", seed=1)])
        assert text

    def test_a_core_name_keeps_its_meaning(self) -> None:
        assert type(toy_classifier().fitted).__name__ != "Shares"

    def test_one_that_cannot_be_loaded_is_said_so(self) -> None:
        with pytest.raises(BadInput, match="method 'broken' of their_package:Missing cannot be loaded"):
            toy_classifier(method="broken")
