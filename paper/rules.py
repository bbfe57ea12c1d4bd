"""How each of the paper's claims is decided on our records; `paper/claims.py` says them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2
from statistics import fmean
from typing import Any, NamedTuple

from paper.answers import ALL_ORDERS, ASKED, ASKING, D_SMC, M_SMC, WARM
from paper.cells import number

ORAL, SYMPTOMS, REPORTS = "oral-lesions", "symptom-to-diagnosis", "case-reports"
PANELS = (ORAL, SYMPTOMS, REPORTS)
EF = ASKING[3]
_STANDS_IN = f"{EF}; {WARM} stands in where a model was not asked at 0.2"
LEAST_FRESH = 30  # cases of Algorithm 1 that a verdict needs
Data = Mapping[str, Any]  # what each artefact's record holds, by its name


class Ruling(NamedTuple):
    """Ours in figures, whether the rule is met (None: it cannot be put), and why."""

    ours: str
    holds: bool | None
    why: str = ""


# --------------------------------------------------------------------------- reading records


def _asked(rows: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, row) for name, row in rows.items() if row.get("method") in ASKED and "own_bank" in row]


def _gaps(data: Data, panel: str, metric: str) -> list[tuple[str, float, Sequence[float]]]:
    """(way of asking, its metric minus M-SMC's over the same model's bank, 95 %) of each that is defined."""
    found = data["significance"][panel]["differences"]
    pairs = ((name.split(" − ")[0], row[metric]) for name, row in found.items() if f"− {M_SMC} over " in name)
    return [(n, d["difference"], d["ci"]) for n, d in pairs if d["difference"] is not None and d["ci"][0] is not None]


def wins(data: Data, metric: str, better: int, panels: Sequence[str] = (REPORTS,)) -> Ruling:
    """Every comparison with asking in M-SMC's favour beyond doubt; `better` is the sign that favours it."""
    parts, all_sure = [], True
    for panel in panels:
        gaps = _gaps(data, panel, metric)
        sure = [n for n, _, (low, high) in gaps if better * low > 0 and better * high > 0]
        against = [f"{n} {d:+.3f}" for n, d, (low, high) in gaps if better * low < 0 and better * high < 0]
        all_sure &= bool(gaps) and len(sure) == len(gaps)
        parts.append(
            f"{panel}: beyond doubt in {len(sure)} of {len(gaps)}"
            + (f", **the other way round in {len(against)}** ({'; '.join(against)})" if against else "")
        )
    return Ruling("; ".join(parts), all_sure, "over the asked model's own bank, same cases, paired bootstrap")


def _means(rows: Mapping[str, Any], metric: str = "accuracy") -> Iterator[tuple[str, float, float, int]]:
    """(way, its mean over models, M-SMC's mean over the same models' banks, how many)."""
    for way in (*ASKED[:3], ALL_ORDERS):
        same = [row for _, row in _asked(rows) if row["method"] == way]
        if same:
            own = [rows[f"{M_SMC}, {row['own_bank']}"][metric] for row in same]
            yield way, fmean(row[metric] for row in same), fmean(own), len(same)


def on_average(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in PANELS:
        rows = data["main-results"][panel]
        way, theirs, own, n = min(_means(rows), key=lambda m: m[2] - m[1])
        lost = [f"{name} {-gap:+.3f}" for name, gap, (low, _) in _gaps(data, panel, "accuracy") if low > 0]
        holds &= own > theirs and not lost
        parts.append(
            f"{panel}: {own:.3f} against {theirs:.3f} ({way}, {n} model{'s' if n > 1 else ''})"
            + (f", **reversed: M-SMC minus {'; '.join(lost)}**" if lost else "")
        )
    return Ruling("; ".join(parts), holds, "means over the models asked, each with its own bank")


def weakest(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in PANELS:
        best: dict[str, tuple[float, float]] = {}
        for _, row in _asked(data["main-results"][panel]):
            known = best.get(row["own_bank"], (-1.0, 0.0))
            best[row["own_bank"]] = max(known, (row["accuracy"], row["own_bank_accuracy"]))
        (weak, (a, b)), (strong, (c, d)) = sorted(best.items(), key=lambda item: item[1][0])[:: len(best) - 1]
        holds &= b - a > d - c
        parts.append(f"{panel}: {b - a:+.2f} for {weak}, {d - c:+.2f} for {strong}")
    return Ruling("; ".join(parts), holds, "M-SMC minus the best way of asking; two models only")


def stable(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in PANELS:
        rows = data["main-results"][panel]
        asked = [row for _, row in _asked(rows) if row["method"] == ALL_ORDERS]
        ml = [row["accuracy"] for row in asked]
        own = [rows[f"{M_SMC}, {row['own_bank']}"]["accuracy"] for row in asked]
        holds &= len(own) > 1 and max(own) - min(own) < max(ml) - min(ml)
        parts.append(f"{panel}: {min(own):.3f} to {max(own):.3f}, {ALL_ORDERS} {min(ml):.3f} to {max(ml):.3f}")
    return Ruling("; ".join(parts), holds, "two models; one of them answers at chance when asked")


def fold(data: Data) -> Ruling:
    rows = data["error-detection"][REPORTS]
    ratios = {name: row["e_aurc"] / rows[f"{M_SMC}, {row['own_bank']}"]["e_aurc"] for name, row in _asked(rows)}
    least = min(ratios, key=lambda n: ratios[n])
    ours = f"{min(ratios.values()):.1f} ({least}) to {max(ratios.values()):.1f} times M-SMC's"
    return Ruling(ours, min(ratios.values()) >= 10, f"{REPORTS}, own banks")


def _fidelity(rows: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """One row a model: EF as the paper asks, where there is none the warmer one."""
    by_model: dict[str, tuple[str, Any]] = {}
    for name, row in rows:
        if row["method"] in (EF, WARM):
            by_model.setdefault(name.split("(")[-1], (name, row))
            if row["method"] == EF:
                by_model[name.split("(")[-1]] = name, row
    return list(by_model.values())


def uninformative(data: Data) -> Ruling:
    rows = _fidelity(_asked(data["error-detection"][REPORTS]))
    ours = "; ".join(f"{n} {number(row['error_auroc'], row['ci']['error_auroc'])}" for n, row in rows)
    return Ruling(ours, all(row["ci"]["error_auroc"][0] <= 0.584 for _, row in rows), _STANDS_IN)


def over_fidelity(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in PANELS:
        for _, row in _fidelity([(row["name"], row) for row in data["distribution-aware"][panel]]):
            low, high = row["d_smc_minus_asking"]["ci"]
            text = (
                f"{panel}, {row['own_bank']}: {row['d_smc_on_the_same']:.3f} against "
                f"{row['scores']['accuracy']:.3f} ({row['method']})"
            )
            holds &= low > -0.01
            parts.append(f"**{text}**" if high < 0 else text)
    return Ruling(
        "; ".join(parts),
        holds,
        f"D-SMC over the asked model's own bank; bold where it reverses beyond doubt; {_STANDS_IN}",
    )


def brier(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in PANELS:
        rows = data["distribution-aware"][panel]
        mean = {
            name: fmean(v)
            for name in (D_SMC, "ABI")
            for v in [next(r["over_banks"]["brier"] for r in rows if r["name"] == name)]
        }
        mean["EF"] = fmean(row["scores"]["brier"] for _, row in _fidelity([(r["name"], r) for r in rows]))
        holds &= min(mean, key=lambda n: mean[n]) == D_SMC
        parts.append(f"{panel}: " + ", ".join(f"{name} {value:.3f}" for name, value in mean.items()))
    return Ruling("; ".join(parts), holds, f"means over the same models; {_STANDS_IN}")


def cheap(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in PANELS:
        by = {row["name"]: row["inference_seconds"] for row in data["distribution-aware"][panel]}
        ratio = by[D_SMC] / by["ABI"]
        holds &= ratio >= 1e4
        parts.append(f"{panel}: {ratio:.0f} times")
    return Ruling("; ".join(parts), holds, "D-SMC here is a closed form over a bank, which leaves little to amortise")


def matched(data: Data) -> Ruling:
    rows = data["calibrated-embedding"][REPORTS]["rows"]
    abi, centroid = rows["ABI + TS"]["scores"], rows["centroid + TS"]["scores"]
    ours = (
        f"accuracy {abi['accuracy']:.3f} against {centroid['accuracy']:.3f}, Brier {abi['brier']:.3f} against "
        f"{centroid['brier']:.3f}"
    )
    return Ruling(ours, abi["accuracy"] > centroid["accuracy"] and abi["brier"] < centroid["brier"], "packaged bank")


def native(data: Data) -> Ruling:
    rows = data["calibrated-embedding"][REPORTS]["rows"]
    m, c = rows[M_SMC]["scores"], rows["centroid + TS"]["scores"]
    ours = f"{number(m['ece'], m['ci']['ece'])} against {number(c['ece'], c['ci']['ece'])}"
    return Ruling(ours, m["ci"]["ece"][0] <= c["ci"]["ece"][1], "packaged bank; comparable: the intervals overlap")


def below(data: Data) -> Ruling:
    rows = data["risk-coverage"][SYMPTOMS]
    parts, holds = [], True
    for name, own in ((n.split(", ")[1], row) for n, row in rows.items() if n.startswith(f"{M_SMC}, ")):
        asked = {n: row for n, row in rows.items() if row["method"] in ASKED and n.endswith(f"{name})")}
        over = [
            f"{n} at {c}" for n, row in asked.items() for c, risk in row["risk_at"].items() if risk <= own["risk_at"][c]
        ]
        holds &= bool(asked) and not over
        best = min(row["risk_at"]["80%"] for row in asked.values())
        parts.append(
            f"{name}: {own['risk_at']['80%']:.2f} at 80 %, the best way of asking {best:.2f}"
            + (f", **not below {'; '.join(over)}**" if over else "")
        )
    return Ruling("; ".join(parts), holds, "every way of asking the same model, at 20, 50, 80 and 100 % coverage")


def prior(method: str, meets: Callable[[float, float, float], bool]) -> Callable[[Data], Ruling]:
    def decide(data: Data) -> Ruling:
        rows = data["prior-sensitivity"][ORAL][method]
        five = next(row for row in rows if row["count"] == 5)["misleading"]
        even = next(row for row in rows if row["count"] == 1)["misleading"]
        get = lambda row, name: row[name]["value"] if isinstance(row[name], Mapping) else row[name]  # noqa: E731
        before, after = get(five, "prior_on_true"), get(five, "posterior_on_true")
        now, evenly = get(five, "accuracy"), get(even, "accuracy")
        ours = f"{before:.2f} to {after:.2f}, accuracy {now:.3f} (even prior {evenly:.3f})"
        return Ruling(ours, meets(after, now, evenly), "packaged bank, all wrong labels")

    return decide


def diffuse(data: Data) -> Ruling:
    parts, holds = [], True
    for panel, k in ((ORAL, 3), (SYMPTOMS, 6)):
        row = next(r for r in data["out-of-class"][panel] if r["method"] == M_SMC)
        holds &= row["outside_ci"][1] >= 0.95 * log2(k)
        parts.append(f"{panel}: {number(row['outside'], row['outside_ci'], 2)} of {log2(k):.2f} bits")
    return Ruling("; ".join(parts), holds, "packaged bank")


def more_diffuse(data: Data) -> Ruling:
    parts, holds = [], True
    for panel in (ORAL, SYMPTOMS):
        rows = data["out-of-class"][panel]
        own = next(r["outside"] for r in rows if r["method"] == M_SMC)
        asked = {r["method"]: r["outside"] for r in rows if r["method"].startswith(("ML", "EP"))}
        above = [f"{n} {v:.2f}" for n, v in asked.items() if v >= own]
        holds &= bool(asked) and not above
        parts.append(f"{panel}: {own:.2f} bits" + (f", **below {'; '.join(above)}**" if above else ""))
    return Ruling("; ".join(parts), holds, "a model at chance is as diffuse inside the panel")


def split(data: Data) -> Ruling:
    parts = data["uncertainty-decomposition"][REPORTS]
    d, abi = (
        {p: parts[n]["spread"]["all"][f"{p}_bits"]["median"] for p in ("total", "aleatoric", "epistemic")}
        for n in ("d-smc", "abi")
    )
    ours = ", ".join(f"{p} {d[p]:.3f} against {abi[p]:.3f}" for p in d)
    holds = d["total"] < abi["total"] and d["aleatoric"] < abi["aleatoric"] and d["epistemic"] >= 2 * abi["epistemic"]
    return Ruling(ours, holds, "medians in bits, packaged bank; ABI with our objective")


def faithful(data: Data) -> Ruling:
    row = data["abi-fidelity"][f"{REPORTS}, own objective"]
    ours = f"{number(row['agreement'], row['ci']['agreement'])}, r {number(row['correlation_of_means'])}"
    return Ruling(
        ours, row["ci"]["agreement"][1] >= 0.97 and row["correlation_of_means"] >= 0.975, "cases it never saw"
    )


def sharper(data: Data) -> Ruling:
    rows = {p: data["abi-fidelity"][f"{p}, the paper's objective and training"] for p in PANELS}
    ours = "; ".join(f"{p}: {number(r['alpha0_ratio']['median'], r['ci']['alpha0_ratio'], 2)}" for p, r in rows.items())
    return Ruling(ours, all(r["ci"]["alpha0_ratio"][0] > 1 for r in rows.values()), "α₀ of the network over D-SMC's")


def degenerate(data: Data) -> Ruling:
    row = data["abi-fidelity"][f"{ORAL}, the paper's objective and training"]["alpha0_median"]
    return Ruling(
        f"α₀ {row['d-smc']:.0f} of D-SMC, {row['abi']:.0f} of the network", row["d-smc"] > 500, "packaged bank"
    )


def refines(data: Data) -> Ruling:
    first, *_, last = data["smc-dynamics"]["panels"][REPORTS]["d-smc"]["steps"]
    ours = f"{number(first['p_true'], first['p_true_ci'], 2)} to {number(last['p_true'], last['p_true_ci'], 2)}"
    return Ruling(
        ours, last["p_true_ci"][0] > first["p_true_ci"][1], "eight populations; the cap at K = 7 is below .76"
    )


def enough(data: Data) -> Ruling:
    steps = data["smc-dynamics"]["panels"][REPORTS]["d-smc"]["steps"]
    gain = steps[-1]["p_true"] - steps[4]["p_true"]
    return Ruling(f"{gain:+.3f} on the true label after population 5", gain < 0.01, "D-SMC by particles, no early stop")


def one_confusion(data: Data) -> Ruling:
    row = data["error-structure"][ORAL]["errors"][M_SMC]
    first = row["confusions"][0]
    mass = row["wrong_label_mass"]
    ours = f"{first['n']} of {row['errors']} are {first['gold']} read as {first['answered']}, mass {mass:.3f}"
    return Ruling(ours, first["n"] == row["errors"] and mass > 0.8, "packaged bank")


def cosines(data: Data) -> Ruling:
    rows = data["cosine-ablation"]["scores"][REPORTS]
    c, m = rows["embedding cosine, normalised"], rows[M_SMC]
    ours = f"{number(c['ece'], c['ci']['ece'])} against {number(m['ece'], m['ci']['ece'])}"
    return Ruling(ours, c["ci"]["ece"][0] > m["ci"]["ece"][1], "packaged bank")


def coldest(data: Data) -> Ruling:
    every = data["temperature-ablation"]["series"]
    found = next(s["points"] for s in every if s["panel"] == ORAL and s["what"] == M_SMC and "qwen" in s["model"])
    ece = {p["temperature"]: p["ece"] for p in found}
    worst, best = (f(ece, key=lambda t: ece[t]["value"]) for f in (max, min))
    apart = bool(ece[worst]["ci"] and ece[best]["ci"] and ece[best]["ci"][1] < ece[worst]["ci"][0])
    ours = ", ".join(f"{t:g}: {e['value']:.3f}" for t, e in ece.items())
    return Ruling(
        ours, worst == 0.2 and apart if 0.2 in ece else None, "ECE by temperature; worst and best apart beyond doubt"
    )


def few(data: Data) -> Ruling:
    rows = [
        r for r in data["pool-size"]["rows"] if r["panel"] == ORAL and r["method"] == "d-smc" and "qwen" in r["bank"]
    ]
    acc = {r["size"]: r["means"]["accuracy"] for r in rows if r["distinct"][0] >= r["size"]}
    ours = ", ".join(f"{size}: {acc[size]:.3f}" for size in sorted(acc))
    return Ruling(ours, acc[500] - acc[50] < 0.01 and acc[50] - acc[3] < 0.03, "D-SMC by pool size, Qwen's bank")


def rescaled(data: Data) -> Ruling:
    parts, holds = [], True
    for block in (b for panel in PANELS for b in data["post-hoc-calibration"][panel] if b["asked"]):
        ml = next(
            block["rows"][f"{way} + TS"]["scores"] for way in (ASKED[0], ALL_ORDERS) if f"{way} + TS" in block["rows"]
        )
        m = block["rows"][M_SMC]["scores"]
        holds &= m["accuracy"] > ml["accuracy"] and m["ece"] <= ml["ece"]
        parts.append(
            f"{block['title']}: accuracy {m['accuracy']:.3f} against {ml['accuracy']:.3f}, ECE {m['ece']:.3f} "
            f"against {ml['ece']:.3f}"
        )
    return Ruling("; ".join(parts), holds, "M-SMC without labels against scaled logits of the same model")


def no_variant(data: Data) -> Ruling:
    rows = data["capabilities"]
    able = [
        name
        for name, row in rows.items()
        if row["posterior_over_labels"]
        and row["uncertainty_split"]
        and row["prior_at_test_time"]
        and row["single_forward_pass"]
    ]
    return Ruling(f"all of them: {', '.join(able)}" if able else "none has all", not able, "probed on packaged cases")


def missing(why: str) -> Callable[[Data], Ruling]:
    return lambda data: Ruling("", None, why)


def quantised(data: Data) -> Ruling:
    pairs = data["quantisation-ablation"]
    gaps = {name: pair["difference"]["ece"] for name, pair in pairs.items() if pair["bits"] == 4}
    ours = "; ".join(f"{name}: {number(d['value'], d['ci'])}" for name, d in gaps.items())
    holds = all(d["ci"][0] <= 0 for d in gaps.values()) if gaps else None
    return Ruling(ours, holds, "ECE with four bits minus with full weights; other widths are in the section")


def fresh(data: Data) -> Ruling:
    found = data["algorithm-1"]
    rows, ended = found["panels"], f"{found['finished']} of {found['begun']} begun cases ended in time"
    n, done = sum(r["n"] for r in rows.values()), all(r["outcomes"] == {"complete": r["n"]} for r in rows.values())
    ours = "; ".join(
        f"{p}: {r['n']} cases, {number(r['total_variation'], r['total_variation_ci'])}, {r['seconds']:.0f} s a case"
        for p, r in rows.items()
    )
    near = all(r["total_variation_ci"][1] < 0.1 for r in rows.values())
    if n < LEAST_FRESH:
        return Ruling(ours, None, f"{ended}, and {LEAST_FRESH} are needed")
    holds = None if near and not done else near  # a case cut short speaks neither for the claim nor against it
    return Ruling(ours, holds, f"{ended}; closed form over the bank of the same model")
