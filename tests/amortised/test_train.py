"""Training: what it learns, what it refuses, and that the paper's objective over-concentrates."""

import numpy as np
import pytest

from simdx.abc.prior import Prior
from simdx.abc.space import Space
from simdx.amortised.fidelity import compare, summary
from simdx.amortised.network import Network
from simdx.amortised.train import TrainingProgress, TrainSettings, train
from simdx.errors import BadInput, RunFailed
from simdx.methods import Material
from tests.amortised.conftest import SMALL, WORDS, toy_material, toy_texts


def unseen(material: Material) -> np.ndarray:
    return material.observe(toy_texts(25, 99)[0]).vectors


def test_a_small_network_already_answers_as_d_smc(plain: Network, material: Material, space: Space) -> None:
    """75 unseen texts; the bounds are loose, because 4,000 observations and 25 epochs are few."""
    found = summary(compare(plain, space, unseen(material), Prior.uniform(3)))
    assert found["agreement"] >= 0.9
    assert found["correlation_of_means"] >= 0.98
    assert found["kl_nats"]["median"] <= 0.2
    assert 0.7 <= found["alpha0_ratio"]["median"] <= 1.4


def test_a_conditioned_network_follows_the_prior(
    conditioned: Network, material: Material, space: Space
) -> None:
    vectors = unseen(material)
    for p in ([0.8, 0.1, 0.1], [0.05, 0.05, 0.9], [0.5, 0.5, 0.0]):
        found = summary(compare(conditioned, space, vectors, Prior(np.array(p), 3.0)))
        assert found["agreement"] >= 0.85
        assert found["correlation_of_means"] >= 0.95


def test_the_papers_objective_over_concentrates(plain: Network, material: Material, space: Space) -> None:
    """Same observations, same steps; only whose log theta is averaged differs."""

    def found(network: Network) -> dict:
        return summary(compare(network, space, unseen(material), Prior.uniform(3)))

    paper, particles = (train(material, TrainSettings(objective=o, **SMALL)) for o in ("mean", "particles"))
    own, likelihood = found(plain)["alpha0_ratio"]["median"], found(particles)
    assert found(paper)["alpha0_ratio"]["median"] > 2 * own
    assert particles.card.objective == "particles"
    assert likelihood["agreement"] >= 0.9
    assert 0.4 <= likelihood["alpha0_ratio"]["median"] <= 1.4


def test_the_seed_decides_everything(material: Material) -> None:
    tiny = {**SMALL, "count": 600, "epochs": 2}
    first = train(material, TrainSettings(**tiny))
    again = train(material, TrainSettings(**tiny))
    other = train(material, TrainSettings(seed=1, **tiny))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first.layers, again.layers, strict=True))
    assert not np.array_equal(first.layers[1][0], other.layers[1][0])


def test_progress_is_live_and_the_card_remembers(material: Material) -> None:
    seen: list[TrainingProgress] = []
    network = train(material, TrainSettings(**{**SMALL, "count": 900, "epochs": 3}), on_progress=seen.append)
    losses = [p.held_out for p in seen if p.stage == "training"]
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    assert seen[0].stage == "targets"
    assert network.card.metrics["held_out_loss"] == min(losses)
    assert network.card.metrics["observations"] == 900
    assert network.card.panel_hash == material.panel.hash
    assert network.card.bank_hash == material.bank.hash
    assert network.card.embedder == material.embedder.id


def test_the_card_says_how_much_training_there_was(material: Material, conditioned: Network) -> None:
    few = train(material, TrainSettings(count=600, epochs=2, threads=1)).card.settings
    assert (few["count"], few["epochs"], few["batch"], few["learning_rate"]) == (600, 2, 256, 3e-3)
    assert conditioned.card.relative
    assert (conditioned.card.settings["batch"], conditioned.card.settings["learning_rate"]) == (512, 5e-3)


def test_training_stops_early_when_nothing_improves(material: Material) -> None:
    seen: list[TrainingProgress] = []
    train(
        material,
        TrainSettings(count=600, epochs=200, patience=2, learning_rate=0.05, threads=1),
        on_progress=seen.append,
    )
    assert sum(p.stage == "training" for p in seen) < 200


def test_unlabelled_cases_can_be_trained_on(material: Material, space: Space) -> None:
    network = train(
        material, TrainSettings(**{**SMALL, "count": 1500, "epochs": 10}),
        vectors=unseen(material), source="cases.jsonl",
    )  # fmt: skip
    assert network.card.observations == "cases.jsonl"
    assert summary(compare(network, space, unseen(material), Prior.uniform(3)))["agreement"] >= 0.8


def test_a_training_prior_is_kept_and_asked_for(material: Material, space: Space) -> None:
    prior = Prior(np.array([0.6, 0.3, 0.1]), 3.0)
    network = train(material, TrainSettings(**{**SMALL, "count": 600, "epochs": 2}), prior=prior)
    network.second_order(space.bank, prior)
    with pytest.raises(BadInput, match="one prior only"):
        network.second_order(space.bank, Prior.uniform(3))


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"objective": "best"}, "objective"),
        ({"populations": 0}, "populations"),
        ({"learning_rate": float("nan")}, "learning-rate"),
        ({"epochs": 0}, "epochs"),
        ({"count": 10}, "count"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(material: Material, change: dict, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        train(material, TrainSettings(**{**SMALL, **change}))


def test_what_cannot_be_trained_on_is_refused(material: Material) -> None:
    broken = unseen(material)
    broken[3] = np.nan
    same = material.observe([WORDS["apple"]] * 20).vectors
    for vectors, said in ((broken, "NaN"), (same, "one class"), (broken[:1], "at least 2")):
        with pytest.raises(BadInput, match=said):
            train(material, TrainSettings(**SMALL), vectors=vectors)
    with pytest.raises(BadInput, match="two labels"):
        train(toy_material({"apple": WORDS["apple"]}), TrainSettings(**SMALL))
    with pytest.raises(RunFailed, match="diverged"):
        train(material, TrainSettings(learning_rate=1e30, **SMALL))
