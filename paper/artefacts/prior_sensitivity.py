"""The paper gives one pseudo-count of five to one label of its three. Here a prior of every strength is put on each
label of a panel in turn: it is *informative* for the cases of that label and *misleading* for the others, so a case's
figure under a misleading prior is the mean over every wrong label, and none is picked. D-SMC takes the prior as the
paper does, as pseudo-counts (a stronger prior is also a more concentrated one), and once more with the concentration
held at the number of labels, which separates the two."""

from collections.abc import Iterator
from math import log10
from typing import Any

from paper.measures import priors
from paper.measures.priors import COUNTS, PAPER_COUNT
from paper.sentences import misled
from paper.spec import Artefact, Block, Table, as_one, by_panel, keys, lines, metrics, nested, over

HEADS = {"prior_on_true": "prior on the true label", "posterior_on_true": "posterior on it", "accuracy": "accuracy"}
SWEEP = {"misleading.prior_on_true": "misleading: prior on the true label", "misleading.posterior_on_true": "posterior "
         "on it", "misleading.accuracy": "accuracy, misleading", "informative.accuracy": "accuracy, informative"}


def at_five(b: Block) -> Iterator[dict[str, Any]]:
    for one in nested(b):
        by = {row["count"]: row for row in one["found"]}
        for count, prior in ((1, "uniform"), (PAPER_COUNT, "informative"), (PAPER_COUNT, "misleading")):
            figures = by[count]["informative" if prior == "uniform" else prior]
            yield one | figures | {"prior": prior, "setting": prior if one["method"] else None}


def every_strength(b: Block) -> Iterator[dict[str, Any]]:
    for one in nested(b):
        yield from (one | {"odds": f"{row['count']:g} to 1", **row} for row in one["found"])


ARTEFACT = Artefact(
    "Prior sensitivity: uniform, right and misleading priors, over a sweep of strengths (table S7)", 340,
    priors.sensitivity, each=as_one, claims=misled, claims_each=by_panel,
    tables=(
        Table(f"One label favoured {PAPER_COUNT} to 1: mass on the true label before and after, and accuracy", at_five,
              (*keys("panel | method=name | prior"), *metrics(HEADS, digits=2, paper_head="paper", at="")),
              "Misleading: mean over all wrong labels. 95 % bootstrap over cases."),
        Table("The sweep the paper leaves open", every_strength,
              (*keys("panel | method=name | odds of the favoured label=odds"),
               *metrics(SWEEP, digits=dict.fromkeys(SWEEP, 2) | {"misleading.prior_on_true": 4}, paper=False, at="")),
              "M-SMC and D-SMC keep a fixed share of the prior predictive, one part in 32, however the prior lies: "
              "once a wrong label holds nearly all of it, its own simulations fill that share and no evidence is left "
              "to overrule it. The recipe multiplies prior and likelihood, so evidence keeps its weight."),
    ),
    drawings=(lines("Accuracy under misleading priors, {panel}", ("odds given to a wrong label (to 1)", "accuracy"),
                    lambda b: over(b.d, lambda row: log10(row["count"]), "misleading.accuracy"),
                    {log10(count): f"{count:g}" for count in COUNTS["full"]}, "{panel}: accuracy as the odds of "
                    "a wrong label grow, mean over every wrong label, 95 % bootstrap.", each=by_panel),),
)
