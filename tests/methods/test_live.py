"""Live and hybrid engines through the front door, with the deterministic simulator."""

from __future__ import annotations

import pytest

from simdx import BadInput, Classifier
from simdx.types import Bank, Panel

CASE = "the motor lost oil and the piston broke"


@pytest.mark.parametrize("method", ["m-smc", "d-smc"])
@pytest.mark.parametrize("engine", ["live", "hybrid"])
def test_counted_capped_and_repeatable(toy_panel: Panel, toy_bank: Bank, method: str, engine: str) -> None:
    def ask(seed: int):
        c = Classifier(
            toy_panel, toy_bank, method=method, engine=engine, simulator="scripted", budget=24, seed=seed
        )
        return c.infer(CASE)

    answer = ask(1)
    live = answer.provenance.live
    assert live is not None
    assert live["simulator"] == "scripted"
    assert live["cases"] == 1
    # a rejected text is asked for again, at most three times
    assert live["llm_calls"] <= 4 * 24
    assert answer.posterior == ask(1).posterior
    assert sum(answer.posterior.values()) == pytest.approx(1)


def test_the_default_method_is_refused(toy_panel: Panel, toy_bank: Bank) -> None:
    with pytest.raises(BadInput, match="m-smc or d-smc"):
        Classifier(toy_panel, toy_bank, engine="hybrid")
    with pytest.raises(BadInput, match="--budget"):
        Classifier(toy_panel, toy_bank, method="m-smc", engine="live", budget=0)
