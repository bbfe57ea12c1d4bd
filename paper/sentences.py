"""What is said of an artefact's figures where that takes more than its spec can hold; all of it is made of figures."""

from collections.abc import Iterator, Sequence
from math import log2
from typing import Any

from paper.answers import ASKED
from paper.cells import METHODS, NONE, counted, dagger, method_name, number, quoted, several
from paper.measures.priors import PAPER_COUNT
from paper.measures.sampler import DEFAULT, POPULATIONS, STOP
from paper.measures.simplex import ABSOLUTE, FIXED, OBJECTIVES
from paper.spec import Block, figure
from paper.theirs import data_of_panel, quotes
from paper.world import REFERENCE, labels_of
from simdx.abc.second_order import concentration_cap

BITS = {"total_bits": "total", "aleatoric_bits": "aleatoric", "epistemic_bits": "epistemic"}
_MEANT = {
    "out of class": "epistemic uncertainty is meant to rise on atypical text",
    "wrong": "epistemic uncertainty is meant to mark unreliable answers",
}
POOLS = (3, 50, 500, 1000)  # the paper's


def refinement(b: Block) -> Iterator[str]:
    """Of the samplers population by population, and of the worked example."""
    if "steps" in b.d:
        first, last = b.d["steps"][0], b.d["steps"][-1]
        yield (
            f"Worked example {b.d['id']}: from {first['p_label']:.2f} and {first['entropy_bits']:.2f} bits after the "
            f"first population to {last['p_label']:.2f} and {last['entropy_bits']:.2f} bits after "
            f"{last['population']}, as ε falls from {first['epsilon']:.2f} to {last['epsilon']:.2f}."
        )
        return
    d, m = (b.d[method]["steps"] for method in ("d-smc", "m-smc"))
    first, fifth, last = d[0], d[min(DEFAULT, len(d)) - 1], d[-1]
    rises = first["p_true_ci"] and last["p_true_ci"] and last["p_true_ci"][0] > first["p_true_ci"][1]
    line = (
        f"{b.panel}: {'refinement does work' if rises else 'refinement moves little here'}: D-SMC's mass on the true "
        f"label rises from {first['p_true']:.2f} to {fifth['p_true']:.2f} by population {fifth['population']} and "
        f"{last['p_true']:.2f} by {last['population']}, under caps of {fifth['cap']:.2f} and {last['cap']:.2f}; "
        f"M-SMC's from {m[0]['p_true']:.2f} to {m[-1]['p_true']:.2f}"
    )
    if paper := quotes(b.artefact, data=data_of_panel(b.panel), quantity="p_true"):
        cap = concentration_cap(b.d["d-smc"]["labels"], POPULATIONS)
        line += (
            f"; the paper's {max(q.value for q in paper):.2f} lies above the cap of {cap:.2f} that eight halvings "
            "leave: its “adaptive” tolerances need not be medians"
        )
    yield f"{line}."
    before, later = (sum(s["simulations"] for s in some) for some in (d[:DEFAULT], d[DEFAULT:]))
    if later and before:
        gain = last["p_true"] - fifth["p_true"]
        yield (
            f"{b.panel}: populations after the fifth cost {later / before:.1f} times the simulations of the first five "
            f"and move D-SMC's mass on the true label by {gain:+.2f}: {'no' if gain < 0.01 else 'a'} gain."
        )
    m_smc, d_smc = b.d["m-smc"], b.d["d-smc"]
    yield (
        f"{b.panel}: the rule that the paper recommends (stop below acceptance {STOP}) would end M-SMC by population "
        f"{DEFAULT} on {m_smc['stopped_by_default']:.0%} and D-SMC on {d_smc['stopped_by_default']:.0%} of the cases; "
        f"run to the end, 100 particles lie {m_smc['distance_to_closed_form']:.3f} and "
        f"{d_smc['distance_to_closed_form']:.3f} in total variation from the closed forms, which need none."
    )


def breaking_point(counts: Sequence[float], accuracies: Sequence[float]) -> float | None:
    """The first strength at which accuracy is below half of what it is under the uniform prior."""
    return next((c for c, a in zip(counts, accuracies, strict=True) if a < accuracies[0] / 2), None)


def misled(b: Block) -> Iterator[str]:
    """Of misleading priors."""
    for variant in ("m-smc", "d-smc"):
        by = {row["count"]: row for row in b.d[variant]}
        five, paper = by[PAPER_COUNT]["misleading"], b.paper("accuracy", METHODS[variant], "misleading")
        yield (
            f"{b.panel}: misled 5 to 1, {METHODS[variant]} moves the true label from {five['prior_on_true']:.2f} to "
            f"{five['posterior_on_true']['value']:.2f} and keeps an accuracy of {figure(five, 'accuracy', 2)} "
            f"({by[1]['informative']['accuracy']['value']:.2f} under a uniform prior)"
            + (f"; the paper reports {paper.value:.2f}." if paper else ".")
        )
    words = []
    for variant, sweep in b.d.items():
        counts = [row["count"] for row in sweep]
        point = breaking_point(counts, [row["misleading"]["accuracy"]["value"] for row in sweep])
        words.append(f"{method_name(variant)} {f'not up to {counts[-1]:g}' if point is None else f'at {point:g}'} to 1")
    yield f"{b.panel}: accuracy under a misleading prior falls below half of its uniform value: {', '.join(words)}."


def pools(b: Block) -> Iterator[str]:
    """Of how many simulations are enough."""

    def accuracies(method: str, rows: Sequence[Any]) -> dict[int, float]:
        return {row["size"]: row["means"]["accuracy"] for row in rows if row["method"] == method}

    own, parts = [row for row in b.d if row["bank"] == REFERENCE], []
    for method in ("d-smc", "m-smc"):
        by = accuracies(method, own)
        three, *_, last = by.values()
        parts.append(
            f"{METHODS[method]} reaches {three:.3f} with 3 per label, {by[50]:.3f} with 50 and {last:.3f} with all "
            f"({last - by[50]:+.3f} beyond 50)"
        )
    paper = b.paper("accuracy", "D-SMC", "3")
    tail = f"; the paper's D-SMC has {paper.value:.3f} with 3 and is level from 50 on" if paper else ""
    yield f"{b.panel}: {several(parts)}{tail}."
    # What the paper's sizes give in each bank that holds more of them than the packaged one.
    packaged, most = (max(row["distinct"][1] for row in some) for some in (own, b.d))
    held = [row for row in b.d if row["distinct"][0] >= row["size"] and row["size"] in POOLS]
    for bank in dict.fromkeys(row["bank"] for row in held if row["size"] > packaged):
        steps = {m: accuracies(m, [row for row in held if row["bank"] == bank]) for m in ("d-smc", "m-smc")}
        parts = [
            f"{METHODS[method]} {several([f'{value:.3f} with {size}' for size, value in some.items()])} per label"
            for method, some in steps.items()
        ]
        yield f"{b.panel}, simulations of {bank}: {several(parts)}."
    if short := sorted({row["size"] for row in b.d if row["size"] > most}):
        yield (
            f"{b.panel}: pools of {several([str(size) for size in short])} per label could not be made: the largest "
            f"bank has {most} distinct texts of a label, and what these rows show is that bank."
        )


def ambiguity(b: Block) -> Iterator[str]:
    """Of uncertainty split in two."""
    d, abi = ({part: s["median"] for part, s in b.d[method]["spread"]["all"].items()} for method in (FIXED, "abi"))
    sharper = [BITS[part] for part in ("total_bits", "aleatoric_bits") if d[part] < abi[part]]
    share = abi["alpha0"] / d["alpha0"]
    yield (
        f"{b.panel}: the paper finds D-SMC lower in total and aleatoric bits and with two to three times the epistemic "
        f"bits of its network. Here D-SMC is lower in {several(sharper) if sharper else 'neither'} and has "
        f"{d['epistemic_bits'] / abi['epistemic_bits']:.2f} times the epistemic bits; the network's α₀ is {share:.2f} "
        "times D-SMC's."
    ) + (
        " A network trained on D-SMC's own spread is thus not over-concentrated; the paper's objective is what does "
        "that (see the network's fidelity)."
        if 0.5 < share < 2
        else ""
    )
    for against, meant in _MEANT.items():
        name = f"{against}: epistemic_bits"
        first, other = (b.d[method]["auroc"].get(name) or {} for method in (FIXED, ABSOLUTE))
        if first.get("value") is None:
            continue
        line = f"{b.panel}: {meant}; D-SMC's finds {against} cases with AUROC {number(first['value'], first['ci'], 2)}"
        line += ", no better than chance" if first["ci"] and first["ci"][0] <= 0.5 else ""
        if other.get("value") is not None:
            line += (
                f", and with an absolute tolerance {number(other['value'], other['ci'], 2)} (accuracy "
                f"{b.d[ABSOLUTE]['accuracy']:.2f} instead of {b.d[FIXED]['accuracy']:.2f})"
            )
        yield f"{line}."


def fidelity(b: Block) -> Iterator[str]:
    """Of the amortised network."""
    own, papers, *more = (row for name in OBJECTIVES for row in b.d if row["objective"] == name)
    theirs = b.paper("agreement", "ABI")
    yield (
        f"{b.panel}: the network names D-SMC's label on {own['agreement']:.1%} of unseen cases (two seeds of D-SMC "
        f"agree on {own['agreement_between_seeds']:.1%})"
        + (f"; the paper reports {theirs.value:.0%}, training cases included." if theirs else ".")
    )
    line = (
        f"{b.panel}: D-SMC's median α₀ is {own['alpha0_median']['d-smc']:.0f}. The network has "
        f"{own['alpha0_ratio']['median']:.2f} times as much with our objective, "
        f"{papers['alpha0_ratio']['median']:.1f} times with the paper's on our simulated observations"
    )
    for same in more:
        line += (
            f", and {figure(same, 'alpha0_ratio', 2)} times trained as the paper trains: its objective, the "
            f"{same['training'].get('observations', 0):,.0f} cases themselves, at most 500 epochs, batches of 64, rate "
            "0.001, a tenth held out"
        )
    yield f"{line}."


def their_network(b: Block) -> Iterator[tuple[str, ...]]:
    """The paper's rows of the table of the network, where it has some."""
    for panel in dict.fromkeys(row["panel"] for row in b.d.values()):
        found = {q.quantity: q for q in quotes(b.artefact, data=data_of_panel(panel))}
        alpha0, reach = found.get("alpha0"), NONE
        if alpha0 is not None:
            reach = (
                f"{alpha0.low:.0f} to {alpha0.high:.0f}{dagger(alpha0)}" if alpha0.high else f"over {alpha0.value:.0f}"
            )
        right = ", ".join(f"{q.value:.2f}" for name, q in found.items() if "where_they_differ" in name)
        if found:
            cells = (quoted(found.get(name)) for name in ("agreement", "correlation_of_means", "kl_nats"))
            yield panel, "paper", *cells, reach, NONE, NONE, right or NONE, NONE


def diffuse(b: Block) -> Iterator[str]:
    """Of entropy on out-of-class cases."""

    def auroc(row: dict[str, Any]) -> float:
        return row["auroc"] or 0.0

    by, top, cosine = {row["method"]: row for row in b.d}, log2(len(labels_of(b.panel))), METHODS["centroid"]
    said = {name: figure(row, "auroc", 2) for name, row in by.items()}
    m, paper = by["M-SMC"], b.paper("entropy_bits", "M-SMC")
    maximal = "it is maximal here too" if m["outside"] >= 0.95 * top else "it is not the maximum the paper speaks of"
    yield (
        f"{b.panel}: M-SMC reaches {m['outside']:.2f} of {top:.2f} bits out of class"
        + (f" (the paper: {paper.value:.2f}); {maximal}." if paper else ".")
    )
    best = max((row for row in b.d if row["asked"] is None), key=auroc)["method"]
    yield (
        f"{b.panel}: entropy tells out-of-class cases from the panel's own with AUROC {said['M-SMC']} for M-SMC and "
        f"{said['D-SMC']} for D-SMC; best is {best} with {said[best]}. High entropy alone is no detector: "
        f"normalised cosines have {by[cosine]['outside']:.2f} bits out of class and {by[cosine]['inside']:.2f} on "
        "the panel's own cases."
    )
    if asked := [row for row in b.d if row["method"].startswith(("ML", "EP"))]:
        first, order = max(asked, key=auroc), all(m["outside"] > row["outside"] for row in asked)
        line = ", ".join("{method} {outside:.2f}".format(**row) for row in asked)
        line = f"{b.panel}: asked directly, {line} bits; M-SMC is {'' if order else 'not '}above all of them"
        if first["auroc"] is not None:
            line += (
                f". Entropy of a model asked tells out-of-class cases from the others with AUROC "
                f"{said[first['method']]} at best ({first['method']}), "
                f"{'' if auroc(first) > auroc(m) else 'not '}above M-SMC's"
            )
        yield f"{line}."


def beyond_doubt(b: Block) -> Iterator[str]:
    """Of differences from M-SMC; a regression that was refused is named."""
    for title, end in (("asking", " (the paper: 24 of 24 on MultiCaRe)"), ("other inference", "")):
        rows = b.d["differences"].items()
        chosen = {n: row for n, row in rows if (n.split(" (")[0] in ASKED) == (title == "asking")}
        if not chosen:
            yield f"{b.panel}: no record of {title} is at hand."
            continue
        better = sum((row["ece"]["ci"][0] or 0) > 0 for row in chosen.values())
        # A low ECE is cheap for whoever answers at chance with even odds: the accuracy stands beside it.
        worse = [
            f"{name.split(' − ')[0]} (accuracy {row['accuracy']['difference'] or 0:+.2f})"
            for name, row in chosen.items()
            if (row["ece"]["ci"][1] or 0) < 0
        ]
        yield (
            f"{b.panel}: M-SMC's ECE is lower than that of {title} beyond doubt in "
            f"{counted(better, len(chosen), 'comparisons')}"
            + (f", and higher beyond doubt against {', '.join(worse)}{end}." if worse else f"{end}.")
        )
    for name, fit in b.d["regressions"].items():
        if fit["reason"]:
            yield f"{b.panel}: the regression '{name}' is refused: {fit['reason']}."
