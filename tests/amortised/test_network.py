"""The forward pass, what a network refuses, and its files under every kind of damage."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised import network as files
from simdx.amortised.network import Network
from simdx.disk import load_described, save_arrays
from simdx.errors import BadInput, RunFailed
from simdx.methods import PanelData
from simdx.types import Float
from tests.amortised.conftest import WORDS, toy_panel_data

PRIOR = Prior(np.array([0.6, 0.3, 0.1]), 3.0)


def by_hand(network: Network, x: Float) -> Float:
    (w1, b1), (w2, b2), (w3, b3) = ((w.astype(float), b.astype(float)) for w, b in network.layers)
    h = np.maximum(x @ w1 + b1, 0)
    h = np.maximum(h @ w2 + b2, 0)
    return np.log1p(np.exp(h @ w3 + b3)) + 1e-6


def test_the_forward_pass_is_its_formula(plain: Network, space: Space) -> None:
    z = np.repeat(space.bank, 40, axis=0)  # more rows than one block
    assert plain.alpha(z) == pytest.approx(by_hand(plain, z), rel=1e-4)
    assert plain.alpha(z[:0]).shape == (0, 3)
    # Whatever is orthogonal to every class mean changes nothing, as in D-SMC.
    noise = np.random.default_rng(0).standard_normal(space.bank.shape)
    basis = np.linalg.qr(space.class_means.T)[0]
    noise -= noise @ basis @ basis.T
    moved = (space.bank + noise / np.linalg.norm(noise, axis=1, keepdims=True)).astype(np.float32)
    assert plain.alpha(moved) == pytest.approx(plain.alpha(space.bank), rel=1e-3)


def test_one_that_reads_the_whole_embedding_sees_beside_the_class_means(
    plain: Network, whole: Network, space: Space, tmp_path: Path
) -> None:
    beside = np.linalg.qr(space.class_means.T, mode="complete")[0][
        :, space.n_labels :
    ]  # orthogonal to every mean
    for network, seen in ((plain, False), (whole, True)):
        reaches = np.abs(beside.T @ network.layers[0][0]).max() / np.abs(network.layers[0][0]).max()
        assert (reaches > 0.01) == seen
    assert whole.alpha(space.bank) == pytest.approx(by_hand(whole, space.bank), rel=1e-4)
    files.save(whole, tmp_path)
    back = files.load(tmp_path)
    assert (back.card.inputs, plain.card.inputs) == ("embedding", "coordinates")
    means = (one.second_order(space.bank, Prior.uniform(3)).mean for one in (back, whole))
    assert np.array_equal(*means)
    with pytest.raises(BadInput, match="--prior-conditioned"):
        whole.second_order(space.bank, PRIOR)


def test_a_conditioned_network_multiplies_the_prior(conditioned: Network, space: Space) -> None:
    prior = Prior(np.array([0.6, 0.3, 0.1]), 5.0)
    coordinates = space.bank @ space.class_means.T.astype(np.float32)
    z = space.bank / np.linalg.norm(coordinates, axis=1, keepdims=True)
    x = np.concatenate([z, np.tile(files.prior_input(prior), (len(z), 1))], axis=1)
    expected = by_hand(conditioned, x) * prior.alpha
    second = conditioned.second_order(space.bank, prior)
    assert second.alpha0 == pytest.approx(expected.sum(axis=1), rel=1e-3)
    assert second.mean == pytest.approx(expected / expected.sum(axis=1, keepdims=True), rel=1e-3)
    half = conditioned.second_order(0.5 * space.bank, prior)  # D-SMC too ranks its draws by a cosine
    assert half.mean == pytest.approx(second.mean, rel=1e-3)
    assert half.alpha0 == pytest.approx(second.alpha0, rel=1e-3)
    beside = np.linalg.qr(space.class_means.T, mode="complete")[0][None, :, -1]  # orthogonal to every mean
    assert np.isfinite(conditioned.second_order(beside.astype(np.float32), prior).mean).all()


def test_an_observation_without_length_keeps_the_prior(plain: Network) -> None:
    second = plain.second_order(np.zeros((1, 256), dtype=np.float32), Prior.uniform(3))
    assert second.mean[0] == pytest.approx([1 / 3] * 3)
    assert second.alpha0[0] == pytest.approx(3)
    with pytest.raises(BadInput, match="NaN"):
        plain.second_order(np.full((1, 256), np.nan, dtype=np.float32), Prior.uniform(3))


def test_it_is_refused_for_anything_else(plain: Network, panel_data: PanelData, space: Space) -> None:
    for prior in (PRIOR, Prior.uniform(3, alpha0=6.0)):
        with pytest.raises(BadInput, match="--prior-conditioned"):
            plain.second_order(space.bank, prior)
    plain.check(panel_data)
    bank = replace(
        panel_data.bank, texts=panel_data.bank.texts[1:], label_index=panel_data.bank.label_index[1:]
    )
    for other, said in (
        (toy_panel_data({"pear" if k == "apple" else k: v for k, v in WORDS.items()}), "labels of panel"),
        (replace(panel_data, bank=bank), "another bank"),
        (toy_panel_data(embedder="wordllama"), "embedder"),
    ):
        with pytest.raises(BadInput, match=said):
            plain.check(other)


# --------------------------------------------------------------------------- files


def test_a_saved_network_comes_back_bit_for_bit(conditioned: Network, space: Space, tmp_path: Path) -> None:
    files.save(conditioned, tmp_path / "net")
    back = files.load(tmp_path / "net")
    pairs = zip(chain(*conditioned.layers), chain(*back.layers), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    assert back.card == conditioned.card
    assert [p.name for p in (tmp_path / "net").iterdir()] == [files.NETWORK_FILE]
    means = (one.second_order(space.bank, PRIOR).mean for one in (back, conditioned))
    assert np.array_equal(*means)
    for axes, said in ((None, "do not fit"), (conditioned.axes[:, :-1], "do not fit")):
        files.save(replace(conditioned, axes=axes), tmp_path / "net")
        with pytest.raises(BadInput, match=said):
            files.load(tmp_path / "net")


def test_loading_and_running_needs_no_torch(plain: Network, tmp_path: Path) -> None:
    files.save(plain, tmp_path)
    code = (
        "import sys, numpy as np; from simdx.amortised.network import load; "
        f"n = load({str(tmp_path)!r}); n.alpha(np.zeros((2, 256), np.float32)); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_first_network_that_cannot_be_saved_leaves_nothing(
    plain: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed over an earlier one: tests/faults."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunFailed, match="No space left"):
        files.save(plain, tmp_path / "net")
    (w, b), *rest = plain.layers
    with pytest.raises(RunFailed, match="NaN"):
        files.save(replace(plain, layers=((np.full_like(w, np.nan), b), *rest)), tmp_path / "net")
    assert not (tmp_path / "net").exists()


def card_says(folder: Path, **changes: object) -> None:
    """Sealed anew, as by another hand."""
    arrays, about = load_described(folder / files.NETWORK_FILE)
    save_arrays(folder / files.NETWORK_FILE, arrays, about=json.dumps({**json.loads(about), **changes}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shutil.rmtree, "no network"),
        (lambda folder: (folder / files.NETWORK_FILE).write_text("{"), "damaged"),
        (lambda folder: card_says(folder, format=1), "format"),
        (lambda folder: card_says(folder, blocks=[128]), "do not fit"),
        (lambda folder: card_says(folder, inputs="all"), "format"),
    ],
)
def test_damage_is_named_in_one_line(
    plain: Network, tmp_path: Path, damage: Callable[[Path], object], said: str
) -> None:
    files.save(plain, tmp_path / "net")
    damage(tmp_path / "net")
    with pytest.raises(BadInput, match=said):
        files.load(tmp_path / "net")
