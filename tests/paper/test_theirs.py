"""The paper's figures as they are kept: complete, consistent with each other where the paper is, typed."""

import pytest

from paper import theirs
from simdx.errors import BadInput
from simdx.panels import load_source


def test_the_means_are_those_of_the_per_model_grids() -> None:
    """Tables 1 and 2 against S4 and S5: a slip in copying either would show."""
    checked = 0
    for artefact in ("main-results", "distribution-aware"):
        for mean in theirs.quotes(artefact, model=None):
            if mean.quantity == "latency_s":
                continue  # rounded to seconds, and once wrong in the paper (a doubt says so)
            each = theirs.over_models(artefact, mean.quantity, data=mean.data, method=mean.method)
            assert each.value == pytest.approx(mean.value, abs=6e-4), mean
            checked += 1
    assert checked == 3 * 4 * 4 + 3 * 3 * 3


def test_every_data_set_stands_beside_a_packaged_panel() -> None:
    panels = {name: part["panel"] for name, part in theirs.on_file()["data"].items()}
    for name, panel in panels.items():
        assert load_source(panel).panel.name == panel
        assert theirs.data_of_panel(panel) == name
    assert {q.data for q in theirs.quotes()} - {None} == set(panels)


def test_a_mean_is_not_mistaken_for_one_models_figure() -> None:
    mean = theirs.quote("main-results", "accuracy", data="sd", method="M-SMC")
    one = theirs.quote("main-results", "accuracy", data="sd", method="M-SMC", model="Qwen")
    assert mean.value == 0.817
    assert one.value == 0.798
    assert theirs.quote("main-results", "accuracy", data="sd", method="no such method") is None
    with pytest.raises(BadInput, match="name the data set"):
        theirs.quote("main-results", "accuracy", method="M-SMC")


def test_intervals_and_doubts_come_along() -> None:
    auroc = theirs.quote("error-detection", "error_auroc", data="multicare", method="M-SMC")
    assert (auroc.value, auroc.low, auroc.high) == (0.923, 0.912, 0.959)
    impossible = theirs.quote("main-results", "ece", data="sd", method="M-SMC")
    assert "impossible" in impossible.doubts[0]
    assert theirs.quote("main-results", "accuracy", data="sd", method="M-SMC").doubts == ()
    given = set(theirs.doubted())
    assert {doubt["why"].strip() for doubt in theirs.on_file()["doubts"]} == given


def test_differences_in_the_paper_add_up() -> None:
    """Post-hoc and quantisation tables quote the same run as the embedding ablation."""
    same = [
        theirs.quote("post-hoc-calibration", "ece", data="oral", method="M-SMC"),
        theirs.quote("quantisation-ablation", "ece", data="oral", method="M-SMC", setting="16 bits"),
        theirs.quote("embedding-ablation", "ece", data="oral", setting="text-embedding-3-large"),
        theirs.quote("temperature-ablation", "ece", data="oral", method="M-SMC", setting="0.2"),
    ]
    assert {q.value for q in same if q is not None} == {0.036}
    assert None not in same
