"""Rows of figures with intervals, shared by terminal and page."""

from collections.abc import Mapping
from typing import Any

_DIFFERENTIAL = {
    "total_variation": "total variation",
    "cross_entropy": "cross-entropy (nats)",
    "top3_recall": "top-3 recall",
    "rank_correlation": "order of labels (Spearman)",
}
_SETS = {"split": "split", "weighted": "weighted", "class_conditional": "class-conditional"}


def figure(found: Mapping[str, Any], name: str) -> tuple[str, str]:
    value, interval = found[name], found["ci"].get(name)
    return (
        "undefined" if value is None else f"{value:.3f}",
        "" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
    )


def accuracy_rows(found: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Accuracy among the first labels; no rows for a panel of few labels."""
    return [] if found is None else [(f"accuracy at {k}", *figure(found, k)) for k in found["ci"]]


def differential_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [(words, *figure(found, key)) for key, words in _DIFFERENTIAL.items()]
    words = "none of these, mass outside panel (Spearman)"
    return [*rows, (words, *figure(found["outside"], "rank_correlation"))]


def differential_notes(found: Mapping[str, Any]) -> list[str]:
    """What is undefined or was left out, and the figures that the others are read against."""
    notes = [f"{name}: {reason}" for name, reason in found["undefined"].items()]
    notes += [
        f"outside the panel, {name}: {reason}" for name, reason in found["outside"]["undefined"].items()
    ]
    if found["n_naming_no_label"]:
        notes.append(f"references that name no label of the panel, left out: {found['n_naming_no_label']}")
    if found["reference_entropy"] is not None:
        notes.append(f"the least cross-entropy there could be is {found['reference_entropy']:.3f}")
    return notes


def set_rows(found: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Coverage and mean size of conformal sets, as the cases are and as the prior says they come."""
    places = {"": found, "prior: ": found["at_prior"] or {}}
    return [
        (where + _SETS[kind], *figure(sets[kind], "coverage"), *figure(sets[kind], "mean_size"))
        for where, sets in places.items()
        for kind in _SETS
        if kind in sets
    ]


def set_notes(found: Mapping[str, Any]) -> list[str]:
    notes = [f"sets calibrated on {found['n_calibration']} cases ({found['calibrated_on']})"]
    for kind in ("split", "class_conditional"):
        least = found[kind]["least"]
        share = f"{least['coverage']:.3f} of {least['n']}"
        notes.append(f"least covered by {_SETS[kind]} sets: {least['label']} ({share})")
        if always := found[kind]["labels_always_inside"]:
            notes.append(f"labels in every {_SETS[kind]} set, mostly for too few calibration cases: {always}")
    if found["at_prior"]:
        absent = found["at_prior"]["labels_without_cases"]
        without = f", {absent} of which have no cases" if absent else ""
        notes.append(f"prior: as if cases came with the prior's shares of the labels{without}")
    for field, groups in found["groups"].items():
        for value, about in groups.items():
            split, own = (f"{about[kind]['coverage']:.3f}" for kind in ("split", "mondrian"))
            notes.append(
                f"{field} {value} ({about['n']}): covered {split}, with a threshold of its own {own}"
            )
    return notes


def none_words(found: Mapping[str, Any]) -> list[str]:
    """None of these for cases outside the panel and for its own: mean probability, share of answers."""
    if found["mean_outside"] is None or found["mean_inside"] is None:
        return []
    outside, inside = ("{} ({})".format(*figure(found, f"mean_{side}")) for side in ("outside", "inside"))
    answered = (f"{found[key]:.0%}" for key in ("answered_none", "answered_none_inside"))
    return [
        f"none of these: {outside} on average for them, {inside} for the panel's own cases",
        "answered none of these: {} of them, {} of the panel's own cases".format(*answered),
    ]
