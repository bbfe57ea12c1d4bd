"""A network for each panel, trained on simulated text alone, is compared with D-SMC (2,000 draws, two
seeds: what the seeds disagree on, no network can know) and with M-SMC, case by case on cases it has never
seen. The paper compares on all of its cases, the training ones among them. Three networks: with our objective,
which keeps D-SMC's mean and its epistemic bits; with the paper's, the Dirichlet density at the posterior mean,
whose optimum is α₀ → ∞; and with the paper's objective, data, epochs, batch and rate."""

from collections.abc import Iterator
from math import log10

from paper.cells import DOUBT, NONE, dagger, doubts, number, quoted
from paper.measures import simplex
from paper.measures.simplex import OBJECTIVES
from paper.spec import Artefact, Block, Drawing, Found, Said, Table, as_one, figure, of_tuples
from paper.theirs import beside, quote
from simdx.report.plots import Estimate, interval_plot

NAME = "abi-fidelity"
OWN, PAPERS, AS_PAPER = OBJECTIVES
HEADS = ("top label agrees (two seeds of D-SMC)", "r of means", "KL(D-SMC ‖ network), nats, median [quartiles]",
         "α₀ median, network / D-SMC", "α₀ ratio, median", "cases where they differ",
         "right there: network, D-SMC", "top label agrees with M-SMC")


def by_panel(found: Found) -> Iterator[Block]:
    for panel in dict.fromkeys(row["panel"] for row in found["data"].values()):
        yield Block(panel, {o: row for o in OBJECTIVES if (row := found["data"].get(f"{panel}, {o}"))}, found["n"])


def rows(b: Block) -> Iterator[tuple[str, ...]]:
    for row in b.d.values():
        right = row["disagreement"]["accuracy"]
        yield (row["panel"], f"ours, {row['objective']}",
               f"{figure(row, 'agreement')} ({number(row['agreement_between_seeds'])})",
               figure(row, "correlation_of_means", 4),
               number(row["kl_nats"]["median"], row["kl_quartiles"][::2]),
               "{abi:.0f} / {d-smc:.0f}".format(**row["alpha0_median"]),
               number(row["alpha0_ratio"]["median"], row["ci"]["alpha0_ratio"], 2),
               str(row["disagreement"]["n"]),
               f"{right['abi']:.2f}, {right['d-smc']:.2f}" if right else NONE,
               number(row["agreement_with_m_smc"]))
    for panel in dict.fromkeys(row["panel"] for row in b.d.values()):
        names = ("agreement", "correlation_of_means", "kl_nats", "alpha0", "abi_right_where_they_differ",
                 "dsmc_right_where_they_differ")
        *shown, alpha0, abi, dsmc = found = [beside(NAME, q, panel, "ABI") for q in names]
        if any(found):
            reach = NONE
            if alpha0 is not None:
                span = f"{alpha0.low:.0f} to {alpha0.high:.0f}{dagger(alpha0)}" if alpha0.high else ""
                reach = span or f"over {alpha0.value:.0f}"
            right = f"{abi.value:.2f}, {dsmc.value:.2f}" if abi and dsmc else NONE
            yield panel, "paper", *map(quoted, shown), reach, NONE, NONE, right, NONE


def costs(b: Block) -> Iterator[tuple[str, ...]]:
    for row in b.d.values():
        spent = row["training"]
        yield (row["panel"], f"ours, {row['objective']}", f"{row['parameters']:,}",
               f"{spent.get('observations', 0):,}", f"{spent.get('seconds', 0):.0f}")
    size, seconds = (quote(NAME, q, data="multicare", method="ABI") for q in ("parameters", "training_s"))
    if size and seconds:
        span = f"{seconds.low:.0f} to {seconds.high:.0f}"
        yield "MultiCaRe", "paper", f"{size.value:,.0f}{DOUBT}", "not given", span


def drawn(b: Block) -> str:
    shown = [Estimate(name, log10(ratio["median"]), log10(ratio["q10"]), log10(ratio["q90"]),
                      style=int(row["objective"] != OWN))
             for name, row in b.d.items() if (ratio := row["alpha0_ratio"])]
    axis = "log10 of α₀ of the network / α₀ of D-SMC"
    return interval_plot("Concentration of the network over D-SMC's", axis, shown)


def claims(b: Block) -> Iterator[Said]:
    own, theirs = b.d[OWN], beside(NAME, "agreement", b.panel, "ABI")
    yield Said(f"{b.panel}: the network names D-SMC's label on {own['agreement']:.1%} of unseen cases (two seeds "
               f"of D-SMC agree on {own['agreement_between_seeds']:.1%})"
               + (f"; the paper reports {theirs.value:.0%}, training cases included." if theirs else "."))
    ratios = {name: b.d[name]["alpha0_ratio"]["median"] for name in (OWN, PAPERS)}
    target = own["alpha0_median"]["d-smc"]
    line = (f"{b.panel}: D-SMC's median α₀ is {target:.0f}. The network has {ratios[OWN]:.2f} times as much with our "
            f"objective, {ratios[PAPERS]:.1f} times with the paper's on our simulated observations")
    if same := b.d.get(AS_PAPER):
        there = number(same["alpha0_ratio"]["median"], same["ci"]["alpha0_ratio"], 2)
        line += (f", and {there} times trained as the paper trains: its objective, the "
                 f"{same['training'].get('observations', 0):,.0f} cases themselves, at most 500 epochs, batches of 64, "
                 "rate 0.001, a tenth held out")
    yield Said(line + ".")


def note(_: Block) -> str:
    names = ("agreement", "correlation_of_means", "kl_nats", "alpha0", "parameters")
    said = doubts(quote(NAME, q, data="multicare", method="ABI") for q in names)
    return f"Ours on cases no network saw; 95 % bootstrap over cases except for quartiles. {said}"


ARTEFACT = Artefact(
    "Fidelity of the amortised network to what it stands for (table S3)", 320, simplex.abi_fidelity,
    each=as_one, claims_each=by_panel,
    tables=(
        Table("The network against D-SMC, case by case", rows, of_tuples("panel", "whose", *HEADS), note),
        Table("What a network costs to train", costs,
              of_tuples("panel", "whose", "parameters", "training observations", "seconds"),
              "Seconds of wall clock on this machine, the targets included; the first layer of ours is folded "
              "from the coordinates against the class means, so it is counted as it is used."),
    ),
    drawings=(Drawing("alpha0-ratio", drawn,
                      "How much more concentrated than D-SMC the network is: median and 80 % of the cases, in "
                      "powers of ten; 0 is faithful, 2 is a hundredfold."),),
    claims=claims,
)
