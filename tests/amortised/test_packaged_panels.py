"""The figures to reach, on cases no network saw: trained on simulated text alone, against 2,000 draws."""

from pathlib import Path

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.fidelity import compare, summary
from simdx.amortised.train import TrainSettings, train
from simdx.bank.files import packaged_bank
from simdx.embedders import embed_texts, get_embedder
from simdx.methods import Material
from simdx.panels import load_source
from simdx.rows import jsonl_rows
from simdx.types import Float

CASES = {
    "oral-lesions": "oral/vignettes.jsonl",
    "symptom-to-diagnosis": "sd/cases.jsonl",
    "case-reports": "pmc/cases.jsonl",
}


def prepared(panel: str, shared: Path) -> tuple[Material, Space, Float]:
    source = load_source(panel)
    material = Material.prepare(source.panel, packaged_bank(source), get_embedder("wordllama"))
    texts = [row["text"] for _, row in jsonl_rows(shared / CASES[panel])]
    return material, Space.fit(material.embedded, centre=False), embed_texts(material.embedder, texts)


@pytest.mark.slow
@pytest.mark.parametrize("panel", CASES)
def test_a_network_answers_as_d_smc_does(panel: str, shared: Path) -> None:
    material, space, vectors = prepared(panel, shared)
    network = train(material, TrainSettings())
    found = summary(compare(network, space, vectors, Prior.uniform(space.n_labels)))
    assert found["agreement"] >= 0.97
    assert found["correlation_of_means"] >= 0.98
    assert found["kl_nats"]["median"] <= 0.10
    assert 0.8 <= found["alpha0_ratio"]["median"] <= 1.25
    assert found["epistemic_share_of_ceiling"] >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("panel", CASES)
def test_a_conditioned_network_takes_priors_it_never_saw(panel: str, shared: Path) -> None:
    material, space, vectors = prepared(panel, shared)
    network = train(material, TrainSettings(prior_conditioned=True))
    k = space.n_labels
    even = compare(network, space, vectors, Prior.uniform(k))
    assert summary(even)["agreement"] >= 0.95
    ramp = np.arange(1.0, k + 1)
    assert summary(compare(network, space, vectors, Prior(ramp / ramp.sum(), k)))["agreement"] >= 0.95
    agree = []  # a prior of .7 on one label misleads about most cases; every label takes its turn
    for label in range(k):
        p = np.full(k, 0.3 / (k - 1))
        p[label] = 0.7
        agree.append(compare(network, space, vectors, Prior(p, k)).agree)
    # Under such a prior D-SMC's two leading labels are often within .02 of each other, so this asks for means
    # right to about .01. The record (results/abi_fidelity.md) has five seeds on each panel above it: training
    # that ends a little elsewhere, as with another machine's arithmetic, is no reason to miss it.
    assert np.concatenate(agree).mean() >= 0.95
