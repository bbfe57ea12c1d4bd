"""A network for each panel, trained on simulated text alone, is compared with D-SMC (2,000 draws, two seeds: what the
seeds disagree on, no network can know) and with M-SMC, case by case on cases it has never seen. The paper compares on
all of its cases, the training ones among them. Three networks: with our objective, which keeps D-SMC's mean and its
epistemic bits; with the paper's, the Dirichlet density at the posterior mean, whose optimum is α₀ → ∞; and with the
paper's objective, data, epochs, batch and rate."""

from collections.abc import Iterator
from math import log10

from paper.cells import DOUBT, NONE, doubts, number
from paper.measures import simplex
from paper.sentences import fidelity, their_network
from paper.spec import Artefact, Block, Table, as_one, estimates, figure, of_rows, of_tuples
from paper.theirs import quotes
from simdx.report.plots import Estimate

COSTS = ("panel", "whose", "parameters", "training observations", "seconds")
HEADS = ("top label agrees (two seeds of D-SMC)", "r of means", "KL(D-SMC ‖ network), nats, median [quartiles]",
         "α₀ median, network / D-SMC", "α₀ ratio, median", "cases where they differ", "right there: network, D-SMC",
         "top label agrees with M-SMC")


def rows(b: Block) -> Iterator[tuple[str, ...]]:
    for row in b.d.values():
        right, apart = row["disagreement"]["accuracy"], str(row["disagreement"]["n"])
        yield (row["panel"], f"ours, {row['objective']}",
               f"{figure(row, 'agreement')} ({number(row['agreement_between_seeds'])})",
               figure(row, "correlation_of_means", 4), number(row["kl_nats"]["median"], row["kl_quartiles"][::2]),
               "{abi:.0f} / {d-smc:.0f}".format(**row["alpha0_median"]), figure(row, "alpha0_ratio", 2),
               apart, "{abi:.2f}, {d-smc:.2f}".format(**right) if right else NONE, number(row["agreement_with_m_smc"]))
    yield from their_network(b)


def costs(b: Block) -> Iterator[tuple[str, ...]]:
    for row in b.d.values():
        yield (row["panel"], f"ours, {row['objective']}", f"{row['parameters']:,}",
               f"{row['training'].get('observations', 0):,}", f"{row['training'].get('seconds', 0):.0f}")
    paper = {q.quantity: q for q in quotes(b.artefact, data="multicare")}
    size, seconds = paper["parameters"], paper["training_s"]
    yield "MultiCaRe", "paper", f"{size.value:,.0f}{DOUBT}", "not given", f"{seconds.low:.0f} to {seconds.high:.0f}"


ARTEFACT = Artefact(
    "Fidelity of the amortised network to what it stands for (table S3)", 320, simplex.abi_fidelity, each=as_one,
    claims=fidelity, claims_each=of_rows(),
    tables=(
        Table("The network against D-SMC, case by case", rows, of_tuples("panel", "whose", *HEADS), lambda b: (
            "Ours on cases no network saw; 95 % bootstrap over cases except for quartiles. "
            + doubts(quotes(b.artefact, data="multicare")))),
        Table("What a network costs to train", costs, of_tuples(*COSTS),
              "Seconds of wall clock on this machine, the targets included; the first layer of ours is folded from the "
              "coordinates against the class means, so it is counted as it is used."),
    ),
    drawings=(estimates(
        "Concentration of the network over D-SMC's", "log10 of α₀ of the network / α₀ of D-SMC", lambda b: [
            Estimate(name, log10(ratio["median"]), log10(ratio["q10"]), log10(ratio["q90"]),
                     style=int("paper's" in name)) for name, row in b.d.items() if (ratio := row["alpha0_ratio"])],
        "How much more concentrated than D-SMC the network is: median and 80 % of the cases, in powers of ten; 0 is "
        "faithful, 2 is a hundredfold."),),
)
