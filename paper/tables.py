"""The tables of every artefact: a function takes the figures of a record and returns DataFrames of finished cells.

The paper's figure stands beside ours in a column of its own (`…, paper`); † marks one about which the paper
contradicts itself. A column without a single figure is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from paper.theirs import Quote, beside, data_of_panel, doubted, quotes
from paper.world import ASKED, D_SMC, M_SMC, METHODS, REFERENCE, theirs_name

Data = Mapping[str, Any]
Tables = dict[str, pd.DataFrame]
NONE = "–"


def method_name(name: str) -> str:
    return METHODS.get(name, name.replace("d-smc", "D-SMC"))


# --------------------------------------------------------------------------- cells


def number(value: Any, around: Sequence[float] | None = None, digits: int = 3) -> str:
    """`0.857 [0.812, 0.901]`."""
    if value is None or not math.isfinite(value):
        return "undefined"
    shown = f"{value:.{digits}f}"
    if around is None or around[0] is None:
        return shown
    return f"{shown} [{around[0]:.{digits}f}, {around[1]:.{digits}f}]"


def figure(row: Data, name: str, digits: int = 3) -> str:
    """A figure of a row with the interval or the quartiles that the record keeps with it."""
    value, beside_it = row[name], row.get("ci")
    around = row.get(f"{name}_ci", beside_it.get(name) if isinstance(beside_it, Mapping) else None)
    if isinstance(value, Mapping):
        around = (value["q1"], value["q3"]) if "q1" in value else value.get("ci", around)
        value = next(value[key] for key in ("value", "difference", "median") if key in value)
    return number(value, around, digits)


def quoted(quote: Quote | None, digits: int = 3) -> str | None:
    if quote is None:
        return None
    around = None if quote.low is None or quote.high is None else (quote.low, quote.high)
    return number(quote.value, around, digits) + ("†" if quote.doubts else "")


def printed(
    artefact: str, quantity: str, panel: str, method: str | None = None, digits: int = 3, **more: Any
) -> str | None:
    """The paper's figure for that panel's counterpart, as a cell."""
    return quoted(beside(artefact, quantity, panel, method, **more), digits)


def seconds(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of finished cells; what is missing is a dash, a column of dashes is left out."""
    made = pd.DataFrame(list(rows)).dropna(axis=1, how="all")
    return made.where(made.notna(), NONE)


def figures(row: Data, heads: Mapping[str, str], digits: int = 3) -> dict[str, str]:
    """A cell for each metric of a row."""
    return {head: figure(row, name, digits) for name, head in heads.items()}


def metrics(
    artefact: str, panel: str, scores: Data, heads: Mapping[str, str], method: str | None, setting: str | None = None
) -> dict[str, Any]:
    """A cell for each metric, and beside it the paper's of the same method."""
    cells: dict[str, Any] = {}
    for name, head in heads.items():
        cells[head] = figure(scores, name) if name in scores else None
        cells[f"{head}, paper"] = printed(artefact, name, panel, method, setting=setting)
    return cells


def scored(artefact: str, panel: str, rows: Mapping[str, Data], heads: Mapping[str, str]) -> pd.DataFrame:
    """One row a method with its metrics."""
    return frame(
        {"method": name, "n": row["n"]} | metrics(artefact, panel, row, heads, theirs_name(row["method"]))
        for name, row in rows.items()
    )


ACCURACY = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE"}
ALL = {**ACCURACY, "macro_f1": "macro F1", "entropy_bits": "entropy, bits"}
BITS = {"total_bits": "total", "aleatoric_bits": "aleatoric", "epistemic_bits": "epistemic", "alpha0": "α₀"}


def by_panel(one: Callable[[str, Any], pd.DataFrame]) -> Callable[[Data], Tables]:
    """The same table for each panel."""
    return lambda data: {panel: one(panel, part) for panel, part in data.items()}


# --------------------------------------------------------------------------- tables 1 to 4, figure 2


def main_results(data: Data) -> Tables:
    found = {}
    for panel, rows in data.items():
        found[panel] = scored("main-results", panel, rows, ALL)
        means: dict[str, dict[str, list[float]]] = {}
        for row in rows.values():
            if row["method"] in ASKED:
                for name in ALL:
                    means.setdefault(row["method"], {}).setdefault(name, []).append(row[name])
            elif "over_banks" in row:
                means[row["method"]] = row["over_banks"]
        found[f"{panel}: mean over the models that were asked, least and most"] = frame(
            {"method": method, "models": len(values["accuracy"])}
            | {
                head: number(sum(v) / len(v), (min(v), max(v))) if (v := values.get(name)) else None
                for name, head in ALL.items()
            }
            | {f"{head}, paper": printed("main-results", name, panel, theirs_name(method))
               for name, head in ALL.items()}
            for method, values in means.items()
        )  # fmt: skip
    return found


@by_panel
def distribution_aware(panel: str, rows: Sequence[Data]) -> pd.DataFrame:
    made = []
    for row in rows:
        method = theirs_name(row["method"])
        theirs = beside("distribution-aware", "latency_s", panel, method)
        times = {"time a case": seconds(row["seconds"]), "inference alone": seconds(row["inference_seconds"]),
                 "latency, paper": None if theirs is None else seconds(theirs.value)}  # fmt: skip
        scores = metrics("distribution-aware", panel, row["scores"], ACCURACY, method)
        made.append({"method": row["name"], "n": row["scores"]["n"]} | times | scores)
    return frame(made)


DETECTION = {"accuracy": "accuracy", "error_auroc": "error AUROC", "e_aurc": "E-AURC", "risk_at_80": "risk at 80 %"}


@by_panel
def error_detection(panel: str, rows: Data) -> pd.DataFrame:
    return scored("error-detection", panel, rows, DETECTION)


def _temperature(row: Data) -> str | None:
    return None if row.get("temperature") is None else f"{row['temperature']:.2f}"


@by_panel
def calibrated_embedding(panel: str, part: Data) -> pd.DataFrame:
    heads = {**ACCURACY, "nll": "NLL", "error_auroc": "error AUROC"}
    return frame(
        {"method": name, "T": _temperature(row)} | metrics("calibrated-embedding", panel, row["scores"], heads, name)
        for name, row in part["rows"].items()
    )


@by_panel
def risk_coverage(panel: str, rows: Data) -> pd.DataFrame:
    return frame(
        {"method": name, "n": row["n"]} | {f"risk at {c}": number(r) for c, r in row["risk_at"].items()}
        | {f"at {at} %, paper": printed("risk-coverage", f"risk_at_{at}", panel, theirs_name(row["method"]))
           for at in (80, 100)}
        | {"rank correlation of risk with coverage": number(row["rises"], digits=2)}
        for name, row in rows.items()
    )  # fmt: skip


def ternary(data: Data) -> Tables:
    heads = {"top": "top probability", "from_middle": "distance of the mean from the middle", "spread": "spread"}
    rows = ({"cases": name, "n": one["n"]} | figures(one, heads) for name, one in data["groups"].items())
    return {"Medians over cases": frame(rows)}


# --------------------------------------------------------------------------- S1 to S5


def uncertainty_decomposition(data: Data) -> Tables:
    heads, spreads, aurocs = BITS | {"differential_entropy": "differential entropy"}, [], []
    for panel, methods in data.items():
        for name, one in methods.items():
            about = {"panel": panel, "method": method_name(name)}
            for group, parts in one["spread"].items():
                method = METHODS.get(name) if group == "all" else None
                theirs = {f"{head}, paper": printed("uncertainty-decomposition", part, panel, method)
                          for part, head in heads.items()}  # fmt: skip
                spreads.append(about | {"cases": group, "n": parts["total_bits"]["n"]} | figures(parts, heads) | theirs)
            aurocs.append(about | {key: figure(one["auroc"], key, 2) for key in one["auroc"]})
    return {
        "Medians and quartiles; the paper's: mean over models of their medians, least and most": frame(spreads),
        "AUROC of each part: wrong against correct cases, out-of-class against the panel's": frame(aurocs),
    }


def paper_settings(data: Data) -> Tables:
    rows = (
        {"panel": panel, "method": name} | figures(one["scores"], ACCURACY) | figures(one, BITS)
        | {"inference": seconds(one["seconds"])}
        for panel, methods in data["panels"].items() for name, one in methods.items() if "scores" in one
    )  # fmt: skip
    what = "D-SMC with fresh simulations of SmolLM2 (three cases)"
    live = frame([{"what": what, "a case": seconds(data["live_d_smc_seconds"])}])
    return {"The paper's schedule and training": frame(rows), "Live D-SMC": live}


@by_panel
def model_banks(_: str, banks: Data) -> pd.DataFrame:
    return frame(
        {"bank": bank, "method": name} | figures(one["scores"], ACCURACY) | figures(one, BITS)
        for bank, methods in banks.items() for name, one in methods.items()
    )  # fmt: skip


AGREEMENT = {"agreement": "agrees with D-SMC", "agreement_outside": "outside the panel"}
LESS = {"accuracy": "Δ accuracy", "brier": "Δ Brier", "ece": "Δ ECE, debiased"}  # than the network of coordinates


@by_panel
def whole_embedding(_: str, banks: Data) -> pd.DataFrame:
    rows = []
    for bank, arms in banks.items():
        for name, one in arms.items():
            same = {part: head for part, head in AGREEMENT.items() if part in one}
            less = figures(one["minus_coordinates"], LESS) if "minus_coordinates" in one else {}
            about = {"bank": bank, "method": name}
            rows.append(about | figures(one["scores"], ACCURACY) | figures(one, BITS) | figures(one, same) | less)
    return frame(rows)


DIFFERENCES = {"ece": "Δ ECE, debiased", "error_auroc": "Δ error AUROC", "e_aurc": "Δ E-AURC", "accuracy": "Δ accuracy"}


@by_panel
def significance(panel: str, part: Data) -> pd.DataFrame:
    return frame(
        {"compared": name} | figures(row, DIFFERENCES)
        | {"Δ ECE, paper": printed("significance", "delta_ece", panel, row["way"], each=True)}
        for name, row in part["differences"].items()
    )  # fmt: skip


@by_panel
def bank_draws(_: str, banks: Data) -> pd.DataFrame:
    heads = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier", "error_auroc": "error AUROC", "e_aurc": "E-AURC",
             "80%": "risk at 80 %"}  # fmt: skip
    return frame(
        {"bank": bank, "method": method} | {f"{head}, SD": number(spread[m]) for m, head in heads.items()}
        for bank, methods in banks.items() for method, spread in methods.items()
    )  # fmt: skip


def ece_size(data: Data) -> Tables:
    row = {
        "runs": data["runs"], "cases": data["cases"], "labels": data["labels"],
        "interval holds nought": number(data["held"]), "paired test rejects": number(data["ours"]),
        "paired test, plug-in ECE, rejects": number(data["plug-in"]),
    }  # fmt: skip
    return {"Calibrated answers, and flat ones beside them": frame([row])}


def abi_fidelity(data: Data) -> Tables:
    rows = []
    for row in data.values():
        right, training = row["disagreement"]["accuracy"], row["training"]
        own = {
            "agreement": f"{figure(row, 'agreement')} ({number(row['agreement_between_seeds'])})",
            "r of means": figure(row, "correlation_of_means"),
            "KL, nats, median": number(row["kl_nats"]["median"], row["kl_quartiles"][::2]),
            "α₀, network / D-SMC": "{abi:.0f} / {d-smc:.0f}".format(**row["alpha0_median"]),
            "α₀ ratio": number(row["alpha0_ratio"]["median"], row["ci"]["alpha0_ratio"], 2),
            "differ on": row["disagreement"]["n"],
            "right there: network, D-SMC": "{abi:.2f}, {d-smc:.2f}".format(**right) if right else None,
            "parameters": f"{row['parameters']:,}", "training, s": f"{training.get('seconds', 0):.0f}",
        }  # fmt: skip
        rows.append({"panel": row["panel"], "whose": f"ours, {row['objective']}", **own})
    heads = {"agreement": "agreement", "correlation_of_means": "r of means", "kl_nats": "KL, nats, median",
             "alpha0": "α₀, network / D-SMC", "abi_right_where_they_differ": "right there: network, D-SMC",
             "parameters": "parameters", "training_s": "training, s"}  # fmt: skip
    for key in ("oral", "multicare"):
        found = {heads[q.quantity]: quoted(q) for q in quotes("abi-fidelity", data=key) if q.quantity in heads}
        rows.append({"panel": key, "whose": "paper"} | found)
    return {"The network against D-SMC, case by case (in brackets: two seeds of D-SMC)": frame(rows)}


# --------------------------------------------------------------------------- S6 to S14


@by_panel
def entropy_strata(panel: str, methods: Data) -> pd.DataFrame:
    rows = []
    for name, band, one in ((name, band, one) for name, bands in methods.items() for band, one in bands.items()):
        setting = band if (method := theirs_name(name)) else None
        theirs = {q: printed("entropy-strata", q, panel, method, setting=setting) for q in ("share", "accuracy")}
        rows.append({"method": name, "certainty": band, "n": one["n"], "share": number(one["share"]),
                     "share, paper": theirs["share"],
                     "accuracy": number(one["accuracy"], one["ci"]) if one["n"] else None,
                     "accuracy, paper": theirs["accuracy"]})  # fmt: skip
    return frame(rows)


PRIOR = {"prior_on_true": "prior on the true label", "posterior_on_true": "posterior on it", "accuracy": "accuracy"}


@by_panel
def prior_sensitivity(panel: str, variants: Data) -> pd.DataFrame:
    rows = []
    every = ((name, row) for name, sweep in variants.items() for row in sweep)
    for name, row in every:
        for kind in ("informative", "misleading")[: 1 if row["count"] == 1 else 2]:  # an even prior is one
            setting = {1: "uniform", 5: kind}.get(row["count"])
            about = {"method": method_name(name), "odds": f"{row['count']:g} to 1", "prior": setting or kind}
            method = METHODS.get(name) if setting else None
            rows.append(about | metrics("prior-sensitivity", panel, row[kind], PRIOR, method, setting))
    return frame(rows)


@by_panel
def out_of_class(panel: str, rows: Sequence[Data]) -> pd.DataFrame:
    def cell(row: Data, name: str) -> str | None:
        return None if row[name] is None else figure(row, name, 2)

    return frame(
        {"method": row["method"], "n": row["n_outside"], "bits out of class": cell(row, "outside"),
         "paper": printed("out-of-class", "entropy_bits", panel, row["paper"], digits=2),
         "bits on the panel's own": cell(row, "inside"), "AUROC of entropy": cell(row, "auroc")}
        for row in rows
    )  # fmt: skip


def capabilities(data: Data) -> Tables:
    words = {True: "yes", False: "no"}
    names = [name for name in next(iter(data.values())) if name not in ("prior_moved_mass", "seconds_per_case")]
    rows = []
    for name in names:
        theirs = {q.method: words[bool(q.value)] for q in quotes("capabilities", quantity=name)}
        ours = {variant: words[one[name]] for variant, one in data.items()}
        rows.append({"capability": name.replace("_", " "), **ours, **{f"{m}, paper": w for m, w in theirs.items()}})
    return {"Asked of the code itself": frame(rows)}


def smc_dynamics(data: Data) -> Tables:
    heads = {"epsilon": "ε", "acceptance": "acceptance", "simulations": "simulations", "ess": "ESS",
             "entropy_bits": "entropy", "p_true": "mass on the true label", "cap": "cap"}  # fmt: skip
    found = {}
    for panel, methods in data["panels"].items():
        for method, one in methods.items():
            rows = []
            for step in one["steps"]:
                t, name = step["population"], METHODS[method]
                ours = {head: None if step[m] is None else figure(step, m, 0 if m in ("simulations", "ess") else 3)
                        for m, head in heads.items()}  # fmt: skip
                theirs = {f"{head}, paper": printed("smc-dynamics", m, panel, name, setting=str(t - 1))
                          for m, head in heads.items()}  # fmt: skip
                rows.append({"population": t} | ours | theirs)
            title = f"{panel}, {METHODS[method]}: means over {one['n']} cases; the paper counts from nought"
            found[title] = frame(rows)
    if example := data["example"]:
        heads, where = {"p_label": "mass", "entropy_bits": "entropy", "epsilon": "ε"}, ("smc-dynamics", "case-reports")
        found[f"Worked example: {example['id']}"] = frame(
            {"population": s["population"]} | metrics(*where, s, heads, "D-SMC, one case", str(s["population"] - 1))
            for s in example["steps"]
        )
    return found


def algorithm_1(data: Data) -> Tables:
    names = ("accuracy", "closed_form_accuracy", "total_variation", "simulations")
    heads = {name: name.replace("_", " ") for name in names}
    rows = ({"panel": panel, "n": one["n"]} | figures(one, heads)
            | {"cases by populations reached": ", ".join(f"{n} at {t}" for t, n in one["populations"].items())}
            for panel, one in data["panels"].items())  # fmt: skip
    found = {"A stratified sample, no text used twice within a case, S = 100, T = 5": frame(rows)}
    live = {panel: one["generated"] for panel, one in data["panels"].items() if "generated" in one}
    if live:
        heads |= {"seconds": "seconds a case"}
        rows = ({"panel": panel, "n": one["n"]} | figures(one, heads) for panel, one in live.items())
        found["Cases of that sample with every simulation generated inside the run"] = frame(rows)
    return found


def error_structure(data: Data) -> Tables:
    found = {}
    for panel, part in data.items():
        names = ("errors", "wrong_label_mass", "one_hot_errors")
        found[panel] = frame(
            {"method": name, "errors": f"{one['errors']} of {one['n']}",
             "most frequent": "; ".join("{n} {gold} → {answered}".format(**c) for c in one["confusions"][:3]),
             "mass on the wrong label": number(one["wrong_label_mass"]) if one["errors"] else None,
             "one-hot": one["one_hot_errors"], "confident errors": one["confident_errors"],
             "among the most certain 80 %": one["errors_among_most_certain"],
             "paper: errors, mass, one-hot": ", ".join(
                 quoted(q, 3) or "" for n in names if (q := beside("error-structure", n, panel, name))) or None}
            for name, one in part["errors"].items()
        )  # fmt: skip
        found[f"{panel}: would another view have objected to M-SMC's confident answers?"] = frame(
            {"view": name, "when wrong": f"{v['caught']} of {v['confident_errors']}",
             "when right": f"{v['false']} of {v['confident_right']}"}
            for name, v in part["views"].items()
        )  # fmt: skip
    return found


def cosine_ablation(data: Data) -> Tables:
    theirs = {"TF-IDF cosine, normalised": "TF-IDF cosine", "embedding cosine, normalised": "sentence cosine"}
    heads = {**ACCURACY, "entropy_bits": "entropy", "error_auroc": "error AUROC"}
    return {
        panel: frame(
            {"method": name} | metrics("cosine-ablation", panel, one, heads, theirs.get(name, theirs_name(name)))
            for name, one in rows.items()
        )
        for panel, rows in data["scores"].items()
    }


def runtime(data: Data) -> Tables:
    found = {}
    for panel, part in data.items():
        found[f"{panel}: time"] = frame(
            {"method": name, "fit, once": seconds(t["fit_seconds"]), "embedding": seconds(t["embed_seconds"]),
             "inference": seconds(t["infer_seconds"]),
             "a case, paper": printed("runtime", "s_per_case", panel, theirs_name(name), digits=1)}
            for name, t in part["times"].items()
        )  # fmt: skip
        drawn, budget = part["fresh_simulations"], part["budget"]
        calls = [{"what": f"bank {n}", "once": sum(b.values()), "a case": 0} for n, b in budget["banks"].items()]
        calls += [{"what": n, "once": 0, "a case": a["calls_per_case"]} for n, a in budget["asked"].items()]
        calls.append({"what": "M-SMC with fresh simulations, median", "once": 0, "a case": drawn["median"]})
        theirs = beside("runtime", "calls_per_case", panel, D_SMC)
        calls += [] if theirs is None else [{"what": "D-SMC, paper", "once": 0, "a case": theirs.value}]
        found[f"{panel}: calls of the language model"] = frame(calls)
    return found


# --------------------------------------------------------------------------- S15 to S19


def embedding_ablation(data: Data) -> Tables:
    heads, found = {**ACCURACY, "entropy_bits": "entropy"}, {}
    for panel, rows in data["scores"].items():
        made = [{"method": name} | figures(one, heads) for name, one in rows.items()]
        for setting in dict.fromkeys(q.setting for q in quotes("embedding-ablation", data=data_of_panel(panel))):
            cells = {h: printed("embedding-ablation", m, panel, setting=setting) for m, h in heads.items()}
            made.append({"method": f"paper: M-SMC, {setting}", **cells})
        found[panel] = frame(made)
    return found


def quantisation_ablation(data: Data) -> Tables:
    heads, found = {**ACCURACY, "entropy_bits": "entropy", "auroc": "AUROC"}, {}
    for panel in dict.fromkeys(pair["panel"] for pair in data.values()):
        rows: dict[str, dict[str, Any]] = {}
        for pair in (one for one in data.values() if one["panel"] == panel):
            both = zip(pair["banks"], pair["m-smc"], strict=True)
            for name, one in {**{f"{M_SMC}, {b}": s for b, s in both}, **pair["asked"]}.items():
                rows[name] = figures(one, heads)
        for q in quotes("quantisation-ablation", data=data_of_panel(panel)):
            cells = rows.setdefault(f"paper: {q.method}, {q.setting}", {})
            cells[heads[q.quantity]] = quoted(q) or NONE
        found[panel] = frame({"method": name, **cells} for name, cells in rows.items())
    return found


def option_orders(data: Data) -> Tables:
    heads = {**ACCURACY, "error_auroc": "error AUROC"}
    return {
        f"{name}: another order changes {one['order_changes_answer']:.0%} of the answers": frame(
            {"options": order} | figures(scores, heads) for order, scores in one["rows"].items()
        )
        for name, one in data.items()
    }


def temperature_ablation(data: Data) -> Tables:
    return {
        f"{one['panel']}: {one['what']}, {one['model']}": frame(
            {"temperature": f"{p['temperature']:g}", "texts": p["texts"] or None}
            | metrics("temperature-ablation", one["panel"], p, ACCURACY, one["what"], f"{p['temperature']:.1f}")
            for p in one["points"]
        )
        for one in data["series"]
    }


def pool_size(data: Data) -> Tables:
    heads = {"macro_f1": "F1", "auroc": "AUROC", "brier": "Brier", "ece": "ECE", "entropy_bits": "entropy"}
    found = {}
    for panel in dict.fromkeys(row["panel"] for row in data["rows"]):
        made = []
        for row in (r for r in data["rows"] if r["panel"] == panel):
            method, size = METHODS[row["method"]], str(row["size"])
            cells = {"method": method, "bank": row["bank"], "asked for": row["size"],
                     "distinct": " to ".join(str(n) for n in dict.fromkeys(row["distinct"])), "pools": row["pools"],
                     "accuracy": number(row["means"]["accuracy"], row["accuracy_range"]), "accuracy, paper":
                     printed("pool-size", "accuracy", panel, method, setting=size)}  # fmt: skip
            made.append(cells | metrics("pool-size", panel, row["means"], heads, method, size))
        found[f"{panel}: means over pools, worst and best pool"] = frame(made)
    return found


@by_panel
def post_hoc_calibration(panel: str, blocks: Sequence[Data]) -> pd.DataFrame:
    heads = {**ACCURACY, "auroc": "class AUROC"}
    return frame(
        {"method": name, "models": block["title"], "n": row["scores"]["n"], "T": _temperature(row)}
        | metrics("post-hoc-calibration", panel, row["scores"], heads, name)
        for block in blocks for name, row in block["rows"].items()
    )  # fmt: skip


# --------------------------------------------------------------------------- without figures of ours


def settings(_: Data) -> Tables:
    """Table S13."""
    rows = [("particles S", "100", "100; closed forms have none"), ("populations T", "5 (8 in S10)", "5; 11 beside it"),
            ("prior", "non-informative", "uniform; Dir(1, …, 1)"), ("distance", "1 − cosine", "the same"),
            ("perturbation", "DiscreteJump, p = .5", "the same"), ("tolerances", "adaptive", "median of the last ones"),
            ("simulations a label", "about 1,000", f"{REFERENCE} 100 to 250; models' own 33 to 1,000"),
            ("sampling temperature", ".2", ".8 in banks; .2 in the ablation")]  # fmt: skip
    return {"Settings": pd.DataFrame(rows, columns=["setting", "paper", "ours"])}


def prompts(_: Data) -> Tables:
    """Table S20: the prompts of the ensemble. Ours are our own, of the same kind."""
    from simdx.baselines.asking import PARAPHRASES

    return {"Eight paraphrases of the question": pd.DataFrame({"ours": list(PARAPHRASES)})}


def doubts(_: Data) -> Tables:
    rows = [{"what": why, "where": ", ".join(dict.fromkeys(q.place for q in found)), "figures": len(found)}
            for why, found in doubted().items()]  # fmt: skip
    return {"Every figure marked †": pd.DataFrame(rows)}
