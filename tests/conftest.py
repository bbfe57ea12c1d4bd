"""Shared by all tests: where optional data lies, a private cache folder, and a tiny panel to play with."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from simdx.methods import panel_data
from simdx.methods.logistic import choose_reading
from simdx.models.registry import home
from simdx.types import Bank, Panel
from tests import builders
from tests.cli.conftest import cli

__all__ = ["cli"]  # the command line in this process, for every room

# The same inputs on every machine and run: new ones are looked for with `HYPOTHESIS_SEARCH=1` and by
# `make fuzz`, not by whoever happens to run the tests next.
settings.register_profile("same-inputs", derandomize=True)
if not os.environ.get("HYPOTHESIS_SEARCH"):
    settings.load_profile("same-inputs")

ROOT = Path(__file__).resolve().parents[1]


def shared_data() -> Path | None:
    """The folder with the evaluation data, where there is one."""
    for candidate in (os.environ.get("SIMDX_SHARED"), ROOT.parent / "shared"):
        if candidate and (Path(candidate) / "data").is_dir():
            return Path(candidate) / "data"
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_data()
    if folder is None:
        pytest.skip("the shared evaluation data is not beside the checkout")
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """One cache folder for this run: calibrations, policies and compiled panels of other runs stay out of it.

    The processes of xdist inherit it. Models and embeddings are addressed by content and are shared.
    """
    if hasattr(config, "workerinput"):
        return
    cache = home()
    folder = tempfile.TemporaryDirectory(prefix="simdx-tests-")
    config.add_cleanup(folder.cleanup)
    for name in ("models", "embeddings"):
        (cache / name).mkdir(parents=True, exist_ok=True)
        (Path(folder.name) / name).symlink_to(cache / name)
    os.environ["SIMDX_HOME"] = folder.name
    os.environ["SIMDX_FAST"] = "1"  # MiniLM is installed here; tests of it say so


@pytest.fixture(scope="session", autouse=True)
def readings_chosen_once() -> Iterator[None]:
    """Of a bank that was seen before: choosing took a third of the command line's tests."""
    chosen: dict[tuple[object, ...], str] = {}

    def once(bank: Bank) -> str:
        known = (bank.labels, bank.texts, bank.label_index.tobytes())
        if known not in chosen:
            chosen[known] = choose_reading(bank)
        return chosen[known]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panel_data, "choose_reading", once)
        yield


@pytest.fixture
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of its own, for tests that download or damage things."""
    monkeypatch.setenv("SIMDX_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def toy_panel() -> Panel:
    return builders.toy_panel()


@pytest.fixture
def toy_bank() -> Bank:
    return builders.toy_bank()


# Files whose few tests take long go first, so that the processes end together (`--no-loadscope-reorder`).
LONG = (
    "contracts/test_methods", "paper/test_measures", "cli/test_quickstart", "paper/test_figures",
    "cli/test_progress_on_a_terminal", "scale/test_classify", "faults/test_killed_writers",
    "docs/test_tutorial", "reading/test_reading", "docs/test_readme", "decide/test_accept",
    "cli/test_policy_command", "cli/test_evaluate_command", "cli/test_panel_ask",
    "service/test_systemone", "models/test_hub", "faults/test_two_at_once", "docs/test_site",
    "cli/test_compare",
)  # fmt: skip


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection made stays: looking through it again and again took a fifteenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


# Files that import torch and its like, which takes ten seconds: one process runs them all.
HEAVY = (
    "contracts/test_methods", "contracts/test_embedders", "embedders/test_embedders", "cli/test_abi_command",
    "simulators/test_stream_and_scripted", "properties/test_texts", "amortised/", "baselines/", "contrib/",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get("/".join(item.path.with_suffix("").parts[-2:]), len(rank)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class HeavyTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "heavy" if file.removeprefix("tests/").startswith(HEAVY) else file

    return HeavyTogether(config, log)
