"""A toy panel in the hashing embedder and two small networks for it, trained once a session."""

import numpy as np
import pytest

from simdx.abc.space import Space
from simdx.amortised.network import Network
from simdx.amortised.train import TrainSettings, train
from simdx.embedders import get_embedder
from simdx.methods import PanelData
from simdx.types import Bank, Label, Panel

WORDS = {
    "apple": "red sweet fruit tree orchard juice core peel ripe seed",
    "river": "water bank current bridge flood boat stream delta ripe heat",
    "engine": "piston oil fuel gear heat torque motor valve current core",
}
SMALL = {"count": 4000, "epochs": 25, "threads": 1}


def toy_texts(per_label: int, seed: int, words: dict[str, str] = WORDS) -> tuple[list[str], list[int]]:
    rng = np.random.default_rng(seed)
    texts, index = [], []
    for i, own in enumerate(words.values()):
        for _ in range(per_label):
            texts.append(" ".join(rng.choice(own.split(), size=6)))
            index.append(i)
    return texts, index


def toy_panel_data(words: dict[str, str] = WORDS, embedder: str = "hashing") -> PanelData:
    panel = Panel("toy", tuple(Label(name) for name in words), register="plain", embedder="hashing")
    texts, index = toy_texts(12, 7, words)
    background = ("a sonata for violin and piano", "the parliament passed a law", "winter coat and boots")
    bank = Bank("toy", panel.names, tuple(texts), np.array(index), background=background, name="toy")
    return PanelData.prepare(panel, bank, get_embedder(embedder))


@pytest.fixture(scope="session")
def panel_data(tmp_path_factory: pytest.TempPathFactory) -> PanelData:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMDX_HOME", str(tmp_path_factory.mktemp("home")))
        return toy_panel_data()


@pytest.fixture(scope="session")
def space(panel_data: PanelData) -> Space:
    return Space.fit(panel_data.embedded, centre=False)


@pytest.fixture(scope="session")
def plain(panel_data: PanelData) -> Network:
    return train(panel_data, TrainSettings(**SMALL))


@pytest.fixture(scope="session")
def conditioned(panel_data: PanelData) -> Network:
    return train(panel_data, TrainSettings(prior_conditioned=True, **{**SMALL, "count": 12_000}))
