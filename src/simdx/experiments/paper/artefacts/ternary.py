"""Posteriors on the simplex: prior, a correct, a wrong and an out-of-class case (figure 2a).

D-SMC on the panel with three labels. A picture needs single cases; which ones is decided by a rule, not by
eye: of the correct, the wrong and the out-of-class cases, the one whose entropy is the median of its group.
What the picture suggests is then measured on all cases: how far the posterior's mean lies from the middle of
the triangle, and how widely the accepted draws spread around that mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simdx.experiments.paper.artefact import Figure, Finding, NotRun, Table, number
from simdx.experiments.paper.context import Context
from simdx.experiments.paper.intervals import excludes, interval
from simdx.experiments.paper.spec import Spec
from simdx.methods import Observations
from simdx.methods.simplex_view import SimplexView
from simdx.report.svg import ternary_grid
from simdx.types import Float, Int, entropy_bits

ORDER = 250
SHOWN = 200  # draws in each triangle


@dataclass(frozen=True, slots=True)
class Group:
    """Posterior means of some cases with the spread of the draws around them."""

    name: str
    mean: Float  # (n, K)
    spread: Float  # (n,)

    @property
    def from_middle(self) -> Float:
        return np.linalg.norm(self.mean - 1 / self.mean.shape[1], axis=1)

    def typical(self) -> int | None:
        """Position of the case of median entropy; the lower one of two."""
        if not len(self.mean):
            return None
        order = np.argsort(entropy_bits(self.mean), kind="stable")
        return int(order[(len(order) - 1) // 2])


def spread_of(mean: Float, alpha0: Float) -> Float:
    """Root mean squared distance of draws from their mean, from the moment fit: exact for its Dirichlet."""
    return np.sqrt(np.sum(mean * (1 - mean), axis=1) / (alpha0 + 1))


def groups_of(
    mean: Float, alpha0: Float, label: Int, outside: Float | None, outside_alpha0: Float | None
) -> dict[str, Group]:
    right = mean.argmax(axis=1) == label
    spread = spread_of(mean, alpha0)
    found = {
        "correct": Group("correct", mean[right], spread[right]),
        "wrong": Group("wrong", mean[~right], spread[~right]),
    }
    if outside is not None and outside_alpha0 is not None:
        found["out of class"] = Group("out of class", outside, spread_of(outside, outside_alpha0))
    return found


def run(context: Context) -> Finding:
    panel = next((p for p in context.panels if len(context.names(p)) == 3), None)
    if panel is None:
        raise NotRun("a ternary picture needs a panel with three labels, and none of this run has three")
    spec = Spec(panel, "d-smc")
    answers, label = context.answers(spec), context.labels(panel)
    assert answers.second is not None
    beyond = None if answers.second_outside is None else answers.second_outside["alpha0"]
    groups = groups_of(answers.probabilities, answers.second["alpha0"], label, answers.outside, beyond)
    view = SimplexView(context.material(spec), spec.settings())
    prior = context.prior(spec)
    even = view.shared(prior).features[:SHOWN, : len(context.names(panel))].astype(float)
    triangles: list[tuple[str, Float, list[float]]] = [("prior", even, prior.probabilities.tolist())]
    examples = {}
    right = answers.probabilities.argmax(axis=1) == label
    where = {"correct": np.flatnonzero(right), "wrong": np.flatnonzero(~right)}
    for name, group in groups.items():
        chosen = group.typical()
        if chosen is None:
            continue
        apart = name == "out of class"
        row = chosen if apart else int(where[name][chosen])
        seen = context.outside_observations(panel) if apart else context.observations(panel)
        assert seen is not None
        draws = view.draws(_one(seen, row), prior, SHOWN)
        dataset = context.cases(panel).outside if apart else context.cases(panel).dataset
        assert dataset is not None
        gold = dataset.cases[row].label
        heading = name if gold is None else f"{name} (it is {gold})"
        triangles.append((heading, draws, group.mean[chosen].tolist()))
        examples[name] = {
            "id": dataset.cases[row].id,
            "label": gold,
            "mean": group.mean[chosen],
            "entropy_bits": float(entropy_bits(group.mean[chosen])),
        }
    measured = {name: _measure(context, group) for name, group in groups.items()}
    return Finding(
        tables=(_table(measured, prior.probabilities.size),),
        figures=(
            Figure(
                "ternary",
                ternary_grid("D-SMC posteriors on the simplex", triangles, context.names(panel)),
                f"D-SMC on {panel}: {SHOWN} accepted draws each and their mean (larger dot). Each case is "
                "the one of median entropy in its group, so none was picked by eye: "
                + "; ".join(f"{name} {e['id']}" for name, e in examples.items())
                + ".",
            ),
        ),
        verdicts=_verdicts(context, groups, measured),
        n={panel: context.n[panel]}
        | ({} if answers.outside is None else {"out of class": len(answers.outside)}),
        models=("reference bank", context.embedder_name(spec)),
        data={"panel": panel, "examples": examples, "groups": measured},
        notes=context.notes
        + tuple(
            f"No case was {name}, so there is no such triangle."
            for name, g in groups.items()
            if not len(g.mean)
        ),
    )


def _one(observations: Observations, row: int) -> Observations:
    return Observations(
        (observations.texts[row],), observations.vectors[row : row + 1], (observations.keys[row],)
    )


def _measure(context: Context, group: Group) -> dict[str, object]:
    found: dict[str, object] = {"n": len(group.mean)}
    parts = {
        "from_middle": group.from_middle,
        "spread": group.spread,
        "top": group.mean.max(axis=1) if len(group.mean) else np.zeros(0),
    }
    for name, values in parts.items():
        around = interval(
            np.median, values, rng=context.rng("ternary", group.name, name), resamples=context.size.resamples
        )
        found[name] = {"median": float(np.median(values)) if len(values) else None, "ci": around}
    return found


def _table(measured: dict[str, dict[str, object]], n_labels: int) -> Table:
    rows = []
    for name, m in measured.items():
        cells = [number(part["median"], part["ci"]) for part in (m["top"], m["from_middle"], m["spread"])]  # type: ignore[index]
        rows.append((name, str(m["n"]), *cells))
    corner = float(np.linalg.norm(np.eye(n_labels)[0] - 1 / n_labels))
    return Table(
        "Where the posteriors lie (medians over cases, 95 % bootstrap)",
        ("cases", "N", "top probability", "distance of the mean from the middle", "spread of the draws"),
        tuple(rows),
        f"A corner lies {corner:.3f} from the middle. The paper shows four pictures and gives no numbers.",
    )


def _verdicts(
    context: Context, groups: dict[str, Group], measured: dict[str, dict[str, object]]
) -> tuple[str, ...]:
    said = []
    for name, claim in (
        ("out of class", "The paper's out-of-class case lies nearer the middle than a correct one"),
        ("wrong", "The paper's wrong case concentrates on a wrong region, no less than a correct one"),
    ):
        if name not in groups or not len(groups[name].mean) or not len(groups["correct"].mean):
            continue
        a, b = groups["correct"].from_middle, groups[name].from_middle
        gap = float(np.median(a) - np.median(b))
        around = interval(
            lambda x, y: float(np.median(x) - np.median(y)), a, b,
            rng=context.rng("ternary", "gap", name), resamples=context.size.resamples,
        )  # fmt: skip
        nearer = excludes(around) and gap > 0
        holds = nearer if name == "out of class" else not nearer
        said.append(
            f"{claim}; here {name} cases lie {np.median(b):.2f} from the middle against {np.median(a):.2f} "
            f"for correct ones (difference {number(gap, around, 2)}): "
            + ("the same holds for the whole group." if holds else "the whole group does not bear that out.")
        )
    if "out of class" in groups and len(groups["correct"].mean):
        a, b = groups["correct"].spread, groups["out of class"].spread
        ratio = float(np.median(b) / np.median(a))
        said.append(
            f"The draws of out-of-class cases spread {ratio:.2f} times as widely as those of correct ones: "
            "a fixed share of prior mass is accepted whatever the case, so the picture's width says where on "
            "the simplex the answer lies, not how well the case is known."
        )
    return tuple(said)
