"""A compiled panel: the fit's own answers, found by content; never stale, damaged or with a real case."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from simdx import Classifier
from simdx.disk import load_arrays, save_arrays
from simdx.embedders import get_embedder
from simdx.errors import BadInput
from simdx.methods import RECIPE_VERSION, speed
from simdx.methods.panel_data import PanelData, world_identity
from simdx.methods.scores import Comparison
from simdx.methods.world import World
from simdx.models import REGISTRY
from simdx.panels import PACKAGED
from simdx.types import Bank, Case, Float
from tests.builders import LIBRARY, toy_classifier
from tests.source import SOURCE

CASES = ["red sweet fruit", "the boat and the bridge", "a book in the library", "zzz", "42"]


@pytest.fixture
def bank(toy_bank: Bank) -> Bank:
    return replace(toy_bank, background=LIBRARY)


def no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Comparison, "fit", lambda *_, **__: pytest.fail("it was fitted again"))


def files(home: Path) -> list[Path]:
    return sorted((home / "compiled").glob("*"))


def test_it_answers_as_the_fit_does(bank: Bank, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = toy_classifier(bank)
    assert fresh.data.compiled is None
    expected, whole = fresh.infer_batch(CASES), fresh.infer(CASES[0])
    fresh.compile()
    assert len(files(private_home)) == 1  # the one of the first fit, with words and policy now
    no_fit(monkeypatch)
    kept = toy_classifier(bank)
    found = kept.infer_batch(CASES)
    for column in ("posterior", "out_of_class", "typicality", "effective_simulations"):
        np.testing.assert_allclose(getattr(found, column), getattr(expected, column), rtol=1e-12, atol=1e-12)
    assert kept.infer(CASES[0]).to_json() == whole.to_json()


def test_every_packaged_panel_is_compiled(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For both embedders, for this recipe, and with the policy: nothing is fitted, tuned or written."""
    no_fit(monkeypatch)
    shipped = {path.stem for path in (SOURCE / "methods/data/compiled").iterdir()}
    for name in PACKAGED:
        one = Classifier(name)
        assert one.policy.fits(one.desk.fingerprint)
        weights = REGISTRY["minilm"].files["model.safetensors"][:12]
        joint = SimpleNamespace(id=f"wordllama/l2_supercat_256+minilm/{weights}")
        address = speed.address_of(one.bank, joint.id, RECIPE_VERSION, world_identity(one.panel))
        arrays = speed.look_up(address)
        assert arrays is not None, f"compile {name} with wordllama+minilm"
        shipped -= {address, one.data.address}
        assert arrays["vectors"].shape == (len(one.bank.texts), 256 + 384)
    assert not private_home.exists() or not any(private_home.rglob("*.safetensors"))


@pytest.mark.parametrize("name", PACKAGED)
def test_a_packaged_one_holds_what_is_read_today(name: str) -> None:
    kept = Classifier(name, embedder="wordllama").data
    assert kept.compiled is not None
    fresh = PanelData.prepare(kept.panel, kept.bank, kept.embedder)
    assert fresh.compiled is None
    np.testing.assert_allclose(kept.embedded.vectors, fresh.embedded.vectors, atol=1e-5)
    world, made = World.fit(kept), World.fit(fresh)
    assert world is not None
    assert world.known is not None
    assert made is not None
    np.testing.assert_array_equal(world.known.by, made.explained().by)
    assert world.known.least == made.explained().least


def test_another_text_label_embedder_or_recipe_is_another_panel(bank: Bank) -> None:
    hashing, joint = get_embedder("hashing"), get_embedder("wordllama+hashing")
    swapped = replace(bank, texts=(bank.texts[1], bank.texts[0], *bank.texts[2:]))
    moved = replace(bank, label_index=np.roll(bank.label_index, 1))
    against = replace(bank, against=np.arange(len(bank.texts)) % 2 == 0)
    other = replace(bank, background=(*LIBRARY[:-1], "another"))
    asked = [(bank, hashing), (bank, joint), *((b, hashing) for b in (swapped, moved, against, other))]
    found = {speed.address_of(b, embedder.id, RECIPE_VERSION) for b, embedder in asked}
    found.add(speed.address_of(bank, hashing.id, RECIPE_VERSION + 1))
    assert len(found) == len(asked) + 1


def test_a_damaged_one_is_fitted_again_and_said(
    bank: Bank, private_home: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A library that was imported before may have set logging up for itself.
    for name, value in (("disabled", False), ("propagate", True)):
        monkeypatch.setattr(logging.getLogger("simdx"), name, value)
    caplog.set_level(logging.WARNING, logger="simdx")
    expected = toy_classifier(bank).predict_proba(CASES)
    (path,) = files(private_home)
    whole = path.read_bytes()
    for at in (3, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        caplog.clear()
        np.testing.assert_allclose(toy_classifier(bank).predict_proba(CASES), expected, atol=1e-6)
        assert [r.getMessage() for r in caplog.records] == [
            f"simdx: '{path}' is damaged: the panel is fitted again"
        ]
        path.write_bytes(path.read_bytes()[: at if at > 60 else 0])  # and cut off
        assert toy_classifier(bank).data.compiled is None
        assert toy_classifier(bank).data.compiled is not None  # written again


def rolled(arrays: dict[str, Float]) -> dict[str, Float]:
    """Every label is another one's."""
    return arrays | {"labels.labels": np.sort((arrays["labels.labels"] + 1) % 3).astype(np.int32)}


def test_a_forged_one_is_not_believed(bank: Bank, private_home: Path) -> None:
    """Whoever can write the cache and cannot read its key makes no panel of it, however well sealed."""
    honest = toy_classifier(bank).infer(CASES[0])
    (path,) = files(private_home)
    assert (private_home / speed.KEY_FILE).stat().st_mode & 0o777 == 0o600
    key = (private_home / speed.KEY_FILE).read_bytes()
    whole = load_arrays(path, key)
    assert whole is not None
    flat = whole | {"labels.summary.lexical": 0 * whole["labels.summary.lexical"]}
    for forged in (rolled(whole), flat):
        save_arrays(path, forged)  # sealed as the file of a package is
        assert toy_classifier(bank).infer(CASES[0]).to_json() == honest.to_json()
    for open_to_others in (0o640, 0o604):
        (private_home / speed.KEY_FILE).chmod(open_to_others)
        assert toy_classifier(bank).data.compiled is None  # a key others may have read seals nothing


def test_rows_are_checked_against_the_bank_and_weights_are_told_in_the_provenance(
    bank: Bank, private_home: Path
) -> None:
    """Even where the forger has the key."""
    honest = toy_classifier(bank).infer(CASES[0])
    (path,) = files(private_home)
    key = (private_home / speed.KEY_FILE).read_bytes()
    whole = load_arrays(path, key)
    assert whole is not None
    swapped = whole["labels.rows"][::-1], whole["labels.places"][::-1]
    others = whole["outside.labels"]
    for forged in (
        rolled(whole),
        whole | {"labels.rows": swapped[0]},
        whole | {"labels.places": swapped[1]},
        whole | {"outside.labels": np.where(others < 3, others, 0).astype(np.int32)},
        whole | {"vectors": whole["vectors"][1:]},
        {name: array for name, array in whole.items() if name != "typicality"},
    ):
        save_arrays(path, forged, key)
        assert toy_classifier(bank).infer(CASES[0]).to_json() == honest.to_json()
    flat = whole | {"labels.summary.lexical": 0 * whole["labels.summary.lexical"]}
    save_arrays(path, flat, key)
    other = toy_classifier(bank).infer(CASES[0])
    assert other.posterior != honest.posterior
    assert other.provenance.fit != honest.provenance.fit
    assert other.provenance.bank == honest.provenance.bank


def test_what_is_not_compiled(bank: Bank, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real cases are never written, nor what another setting makes; a folder that is not ours is no fault."""
    real = [Case("an apple a day", "1", "apple")]
    taught = toy_classifier(bank, real_cases=real)
    other = toy_classifier(bank, bandwidth=0.2)
    assert files(private_home) == []
    for one in (taught, other, toy_classifier(bank, method="m-smc")):
        with pytest.raises(BadInput, match="only --method auto is compiled"):
            one.compile()
    plain = toy_classifier(bank)
    assert len(files(private_home)) == 1
    again = toy_classifier(bank, real_cases=real)  # from the compiled panel's vectors, fitted anew
    np.testing.assert_allclose(again.predict_proba(CASES), taught.predict_proba(CASES), atol=1e-6)
    assert not np.allclose(again.predict_proba(CASES), plain.predict_proba(CASES), atol=1e-6)
    monkeypatch.setenv("SIMDX_HOME", "/proc/no/such/place")
    np.testing.assert_allclose(
        toy_classifier(bank).predict_proba(CASES), plain.predict_proba(CASES), atol=1e-6
    )
