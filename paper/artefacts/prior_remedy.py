"""The paper (appendix F) proposes it for its one systematic confusion (carcinoma read as mucocele: weigh
against mucocele where there is induration or a risk factor) and does not measure it. Here it is measured, for
three ways of choosing:

the paper's   its own pair and its own feature, stated before any of our cases was seen
simulated     pair and feature from simulated text alone: M-SMC fitted to one half of the bank and asked about
              the other gives the pair, the words of the bank the feature
in view       the pair most often confused on the labelled cases themselves; chosen with the answer in view,
              so optimistic; the feature still comes from the bank

The weight is never tuned: it is how much less often simulations of the over-predicted label mention the
feature than those of the other do. A mention counts unless one of the three words before it denies it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from paper.cells import METHODS, NONE, number
from paper.intervals import excludes
from paper.measures import priors
from paper.spec import Artefact, Block, Column, Said, Table, as_one, key


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def change(name: str, of: str = "") -> Callable[[Any], str]:
    return lambda r: f"{r[name][0]} → {r[name][1]}" + (f" of {r[of]}" if of else "")


def claims(b: Block) -> Iterator[Said]:
    for r in b.d.values():
        was, now = r["confusions"]
        effect = f"mends {was - now if now < was else 'none'} of {was}" if was else "had nothing to mend"
        sure = excludes(r["accuracy_gain_ci"])
        total = f"all in all a {'gain' if r['accuracy_gain'] > 0 else 'loss'}"
        outcome = total if sure else "no change of accuracy beyond its interval"
        yield Said(
            f"{r['panel']}, {METHODS[r['method']]}, {r['choice']} choice: weighing against "
            f"{r['over_predicted']} × {r['odds_multiplier']:.2f} where the feature is mentioned {effect} "
            f"confusions with {r['gold']}; {outcome} ({number(r['accuracy_gain'], r['accuracy_gain_ci'])}).",
            sure and r["accuracy_gain"] > 0,
        )


ARTEFACT = Artefact(
    title="The prior as a remedy: weight against an over-predicted label where a stated feature is present",
    order=345,
    measure=priors.remedy,
    each=as_one,
    tables=(
        Table(
            "The remedy on the confusion it is meant for, on the label it weighs against, and in all",
            lambda b: b.d.values(),
            (
                key("panel", "panel"),
                Column("method", lambda r: METHODS[r["method"]]),
                key("chosen", "choice"),
                Column("confusion (is → read as)", lambda r: f"{r['gold']} → {r['over_predicted']}"),
                key("feature (any of)", "feature"),
                Column(
                    "mentioned by: is / read as",
                    lambda r: " / ".join(share(r["mentioned_in"][who]) for who in ("gold", "over_predicted")),
                ),
                Column("odds of the latter × ", lambda r: number(r["odds_multiplier"], digits=2)),
                Column("confusions", change("confusions", "n_gold")),
                Column("errors on the latter", change("over_predicted_lost", "n_over_predicted")),
                Column("errors in all", change("errors")),
                Column("accuracy gain", lambda r: number(r["accuracy_gain"], r["accuracy_gain_ci"])),
            ),
            "Chosen “in view” uses the labelled cases to find the pair and is optimistic; the others use "
            "none. 95 % bootstrap over cases, paired. The paper proposes the remedy and gives no figures.",
        ),
    ),
    claims=claims,
)
