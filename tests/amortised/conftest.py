"""A toy panel in the hashing embedder and two small networks for it, trained once a session."""

import pytest

from simdx.abc.space import Space
from simdx.amortised.network import Network
from simdx.amortised.train import TrainSettings, train
from simdx.methods import PanelData
from simdx.types import Label, Panel
from tests import builders

WORDS = {
    "apple": "red sweet fruit tree orchard juice core peel ripe seed",
    "river": "water bank current bridge flood boat stream delta ripe heat",
    "engine": "piston oil fuel gear heat torque motor valve current core",
}
SMALL = {"count": 4000, "epochs": 25, "threads": 1}


def toy_panel_data(words: dict[str, str] = WORDS, embedder: str = "hashing") -> PanelData:
    panel = Panel("toy", tuple(Label(name) for name in words), register="plain", embedder="hashing")
    background = ("a sonata for violin and piano", "the parliament passed a law", "winter coat and boots")
    return builders.panel_data(panel, builders.toy_bank(words, background=background), embedder)


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
def whole(panel_data: PanelData) -> Network:
    return train(panel_data, TrainSettings(inputs="embedding", **SMALL))


@pytest.fixture(scope="session")
def conditioned(panel_data: PanelData) -> Network:
    return train(panel_data, TrainSettings(prior_conditioned=True, **{**SMALL, "count": 12_000}))
