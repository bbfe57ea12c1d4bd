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

from collections.abc import Iterator

from paper.cells import METHODS, NONE
from paper.intervals import excludes
from paper.measures import priors
from paper.spec import Artefact, Block, Column, Table, as_one, figure, keys


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.0%}"


def claims(b: Block) -> Iterator[str]:
    for r in b.d.values():
        was, now = r["confusions"]
        effect = f"mends {was - now if now < was else 'none'} of {was}" if was else "had nothing to mend"
        total = f"all in all a {'gain' if r['accuracy_gain'] > 0 else 'loss'}"
        outcome = total if excludes(r["accuracy_gain_ci"]) else "no change of accuracy beyond its interval"
        yield (f"{r['panel']}, {METHODS[r['method']]}, {r['choice']} choice: weighing against {r['over_predicted']} × "
               f"{r['odds_multiplier']:.2f} where the feature is mentioned {effect} confusions with {r['gold']}; "
               f"{outcome} ({figure(r, 'accuracy_gain')}).")


ARTEFACT = Artefact(
    "The prior as a remedy: weight against an over-predicted label where a stated feature is present", 345,
    priors.remedy, each=as_one,
    tables=(
        Table("The remedy on the confusion it is meant for, on the label it weighs against, and in all",
              lambda b: b.d.values(),
              (*keys("panel"), Column("method", lambda r: METHODS[r["method"]]), *keys("chosen=choice"),
               Column("confusion (is → read as)", "{gold} → {over_predicted}".format_map),
               *keys("feature (any of)=feature"),
               Column("mentioned by: is / read as",
                      lambda r: " / ".join(share(r["mentioned_in"][who]) for who in ("gold", "over_predicted"))),
               Column("odds of the latter × ", "odds_multiplier", digits=2),
               Column("confusions", "{confusions[0]} → {confusions[1]} of {n_gold}".format_map),
               Column("errors on the latter",
                      "{over_predicted_lost[0]} → {over_predicted_lost[1]} of {n_over_predicted}".format_map),
               Column("errors in all", "{errors[0]} → {errors[1]}".format_map),
               Column("accuracy gain", "accuracy_gain")),
              "Chosen “in view” uses the labelled cases to find the pair and is optimistic; the others use none. "
              "95 % bootstrap over cases, paired. The paper proposes the remedy and gives no figures."),
    ),
    claims=claims,
)
