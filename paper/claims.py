"""The paper's claims (`claims.yaml`), each decided on our records by a rule that its own printed figures pass.

A rule is a list of gaps: how far each comparison goes in the paper's favour, with a 95 % interval where there is one.
`every` or `most` of the gaps must be positive, as the paper words it. A gap counts when its sign is sure: Holm's
correction over all gaps of one table, α = .05. What is sure neither for nor against the claim is *inconclusive*.
`theirs` makes the same gaps of the paper's figures (`tests/paper/test_claims.py`: each rule then says "agrees").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import hypot, inf, isfinite, log, log10, sqrt
from pathlib import Path
from statistics import StatisticsError, fmean, stdev
from typing import Any, NamedTuple, TypeAlias

import yaml
from scipy.stats import norm, spearmanr

from paper.theirs import quotes
from paper.world import ABI, ASKING, D_SMC, M_SMC, REFERENCE, WARM

AGREES, DISAGREES, OPEN, UNTESTED = "agrees", "disagrees", "inconclusive", "not testable here"
VERDICTS = (AGREES, DISAGREES, OPEN, UNTESTED)
ORAL, SYMPTOMS, REPORTS = "oral-lesions", "symptom-to-diagnosis", "case-reports"
PANELS = {ORAL: "oral", SYMPTOMS: "sd", REPORTS: "multicare"}
ML, EP, PE, EF = ASKING
LEVEL = 0.05
GRID = ("Table 1", "§6.1", "Table 2", "Table 3", "Figure 2b", "Table S2", "Table S19")
LEAST_MODELS = 4  # below, a statement about models as a group cannot be decided
TRAINED = "the paper's objective and training"

_FILE = yaml.safe_load(Path(__file__).with_name("claims.yaml").read_text(encoding="utf-8"))
MARGIN: dict[str, float] = _FILE["margins"]
Data = Mapping[str, Any]


class Gap(NamedTuple):
    """`value` above nought speaks for the claim; (`low`, `high`) is its 95 % interval, None where none is known."""

    what: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def p(self) -> float | None:
        """Two-sided, from the interval: its arm towards nought is 1.96 standard errors."""
        if self.low is None or self.high is None:
            return None
        arm = self.value - self.low if self.value > 0 else self.high - self.value
        return 1.0 if not isfinite(arm) else float(2 * norm.sf(1.96 * abs(self.value) / max(arm, 1e-12)))


Ours: TypeAlias = Callable[[Data], Iterable[Gap]]
Theirs: TypeAlias = Callable[[], Iterable[Gap]]


class Claim(NamedTuple):
    """Where it stands, what it says in our words, the paper's figures in words, and the rule."""

    place: str
    says: str
    figures: str
    need: str  # every | most
    ours: Ours
    theirs: Theirs
    note: str = ""  # what a reader has to know of the comparison
    flaw: str = ""  # why a record cannot decide, whatever it says


class Verdict(NamedTuple):
    claim: Claim
    verdict: str
    sentence: str
    gaps: tuple[Gap, ...]


# --------------------------------------------------------------------------- deciding


def verdicts(data: Data) -> list[Verdict]:
    """Every claim decided on the records (`data`: artefact → figures)."""
    found = [(claim, _gaps(claim, data)) for claim in CLAIMS]
    return [_decided(claim, gaps, _sure(claim.place, found)) for claim, gaps in found]


def on_the_grid(data: Data) -> list[Verdict]:
    """The claims about models' own banks, on the records of the main grid (`paper/PLAN.md`)."""
    return [one for one in verdicts(data) if one.claim.place in GRID]


def on_their_figures(claim: Claim) -> str:
    """The verdict of a rule on the paper's own figures; what is wrong with our records does not matter there."""
    return _decided(claim._replace(flaw=""), tuple(claim.theirs()), {}).verdict


def _gaps(claim: Claim, data: Data) -> tuple[Gap, ...]:
    try:
        return tuple(claim.ours(data))
    except (KeyError, IndexError, StopIteration, StatisticsError):  # a record that is not there, or lacks it
        return ()


def _sure(place: str, found: Sequence[tuple[Claim, tuple[Gap, ...]]]) -> dict[Gap, bool]:
    """Which gaps of one table differ from nought after Holm's correction."""
    table = [(p, gap) for claim, gaps in found if claim.place == place for gap in gaps if (p := gap.p) is not None]
    sure, holds = {}, True
    for i, (p, gap) in enumerate(sorted(table, key=lambda pair: pair[0])):
        holds = holds and p <= LEVEL / (len(table) - i)
        sure[gap] = holds
    return sure


def _decided(claim: Claim, gaps: tuple[Gap, ...], sure: Mapping[Gap, bool]) -> Verdict:
    if not gaps:
        return Verdict(claim, UNTESTED, claim.flaw or "No record holds it.", ())
    pro = sum(gap.value > 0 and sure.get(gap, True) for gap in gaps)
    con = sum(gap.value < 0 and sure.get(gap, True) for gap in gaps)
    if claim.need == "every":
        word = DISAGREES if con else AGREES if pro == len(gaps) else OPEN
    else:
        word = AGREES if 2 * pro > len(gaps) else DISAGREES if 2 * con >= len(gaps) else OPEN
    worst = min(gaps, key=lambda gap: gap.value)
    sentence = f"{pro} of {len(gaps)} for it, {con} against; least: {said(worst)}."
    sentence += f" {claim.note}" if claim.note else ""
    if claim.flaw:
        word, sentence = OPEN, f"{sentence} {claim.flaw}"
    return Verdict(claim, word, sentence, gaps)


def said(gap: Gap) -> str:
    around = "" if gap.low is None or not isfinite(gap.low) else f" [{gap.low:+.3g}, {gap.high:+.3g}]"
    return f"{gap.what} {gap.value:+.3g}{around}"


# --------------------------------------------------------------------------- gaps of theirs


def _one(artefact: str, quantity: str, data: str, method: str) -> float:
    """A printed figure of a method, or of a method at a setting: `M-SMC at 0.2`."""
    name, _, setting = method.partition(" at ")
    return quotes(artefact, quantity=quantity, data=data, method=name, model=None, setting=setting or None)[0].value


def _each(artefact: str, quantity: str, panel: str, method: str) -> dict[str, float]:
    """The printed figures of a method, model by model."""
    found = quotes(artefact, quantity=quantity, data=PANELS[panel], method=method)
    return {q.model: q.value for q in found if q.model}


def _listed(
    artefact: str,
    metrics: str,
    data: str,
    own: str,
    others: Sequence[str] = (),
    margin: str = "nought",
    limit: str = "",
) -> Iterator[Gap]:
    """Gaps that `claims.yaml` lists."""
    for metric in metrics.split():
        sign, name = (-1, metric[1:]) if metric.startswith("-") else (1, metric)
        for data_set in data.split():
            value = _one(artefact, name, data_set, own)
            beside = [MARGIN[limit]] if limit else [_one(artefact, name, data_set, other) for other in others]
            yield from (Gap(metric, sign * (value - other) + MARGIN[margin]) for other in beside)


# --------------------------------------------------------------------------- gaps of ours


def _drawn(data: Data, panel: str, bank: str, method: str, metric: str) -> float:
    """Standard deviation of a figure over the draw of the bank; nought where that was not measured."""
    return data.get("bank-draws", {}).get(panel, {}).get(bank, {}).get(method, {}).get(metric) or 0.0


def _widened(gap: Gap, *spreads: float) -> Gap:
    """Both ends moved out in quadrature by what the draw of each bank adds."""
    if gap.low is None or gap.high is None:
        return gap
    more = [1.96 * spread for spread in spreads]
    low, high = hypot(gap.value - gap.low, *more), hypot(gap.high - gap.value, *more)
    return gap._replace(low=gap.value - low, high=gap.value + high)


def _give(what: str, value: float, arm: float) -> Gap:
    """Give or take an arm."""
    return Gap(what, value, value - arm, value + arm)


def _signed(what: str, value: float, around: Sequence[float], sign: float = 1, limit: float = 0.0) -> Gap:
    """A figure with its interval less a limit, or the limit less the figure."""
    low, high = sorted(sign * (end - limit) for end in around)
    return Gap(what, sign * (value - limit), low, high)


def _minus(what: str, a: Data, b: Data, name: str, sign: float = 1.0, margin: float = 0.0, spread: float = 0.0) -> Gap:
    """a − b of one metric of two sets of answers, intervals joined as if independent (they are paired: wider)."""
    known = [(r.get("ece_debiased", r[name]) if name == "ece" else r[name], r["ci"].get(name)) for r in (a, b)]
    value = sign * (known[0][0] - known[1][0]) + margin
    arms = [(v - around[0], around[1] - v) for v, around in known if around]
    if len(arms) < 2:
        return Gap(what, value, -inf, inf)
    down, up = hypot(arms[0][0], arms[1][1]), hypot(arms[0][1], arms[1][0])
    down, up = (down, up) if sign > 0 else (up, down)
    return _widened(Gap(what, value, value - down, value + up), spread)


def _against(what: str, row: Data, name: str, limit: float, sign: float = 1.0) -> Gap:
    """A figure of a row with its interval against a limit."""
    value, around = row[name], row.get(f"{name}_ci") or (row.get("ci") or {}).get(name)
    if isinstance(value, Mapping):
        value, around = value.get("value", value.get("median")), value.get("ci", around)
    return _signed(what, value, around or (-inf, inf), sign, limit)


def _here(data: Data, artefact: str) -> list[str]:
    """The panels that a record holds: one whose bank was not reached stands for no claim."""
    return [panel for panel in PANELS if panel in data[artefact]]


def _asked(data: Data, panel: str) -> list[Data]:
    """The paper's four ways of asking each model; EF at .7 stands in where a model was not asked at .2."""
    rows = [row for row in data["significance"][panel]["differences"].values() if row["model"]]
    with_ef = {row["model"] for row in rows if row["way"] == EF}
    kept = [row for row in rows if row["way"] in ASKING]
    return kept + [row for row in rows if row["way"] == WARM and row["model"] not in with_ef]


def _differences(data: Data, panel: str, metric: str, sign: float, ways: Sequence[str] = ASKING) -> Iterator[Gap]:
    """Asking minus M-SMC over the same model's bank; cases and bank draws are both in the interval."""
    for row in _asked(data, panel):
        one, way = row[metric], EF if row["way"] == WARM else row["way"]
        if way in ways and one["difference"] is not None and one["ci"][0] is not None:
            yield _signed(f"{panel}, {row['way']} of {row['model']}", one["difference"], one["ci"], sign)


def on_average(data: Data) -> Iterator[Gap]:
    for panel in _here(data, "significance"):
        for way in (ML, EP, PE):
            if same := list(_differences(data, panel, "accuracy", -1, (way,))):
                arm = sqrt(sum(((g.high or 0) - (g.low or 0)) ** 2 for g in same)) / 2 / len(same)
                yield _give(f"{panel}, {way}", fmean(g.value for g in same), arm)


Models = list[tuple[float, float, float]]  # of each model its best way of asking, ML, and M-SMC over its own bank


def _models(data: Data, panel: str) -> Models:
    rows = data["main-results"][panel]
    found: dict[str, dict[str, float]] = {}
    for row in rows.values():
        if row["method"] in (ML, EP, PE) and "own_bank" in row:
            found.setdefault(row["own_bank"], {})[row["method"]] = row["accuracy"]
    return [(max(by.values()), by[ML], rows[f"{M_SMC}, {m}"]["accuracy"]) for m, by in found.items() if ML in by]


def _of_models(where: str, value: float, n: int) -> Gap:
    return Gap(where, value) if n >= LEAST_MODELS else Gap(f"{where}, {n} models", value, -inf, inf)


def _stability(where: str, models: Models) -> Gap:
    """How much less M-SMC varies over models than ML, in standard deviations."""
    _, ml, own = zip(*models, strict=True)
    return _of_models(where, stdev(ml) - stdev(own), len(ml))


def _correlation(where: str, models: Models) -> Gap:
    """Minus the rank correlation of how good a model is when asked with what M-SMC adds to it."""
    added = [own - best for best, _, own in models]
    rho = float(spearmanr([best for best, _, _ in models], added).statistic)
    return _of_models(where, -rho, len(models))


def _fidelity(data: Data, panel: str) -> list[Data]:
    rows = [row for row in data["distribution-aware"][panel] if "d_smc_minus_asking" in row]
    cold = {row["own_bank"] for row in rows if row["method"] == EF}
    return [row for row in rows if row["method"] == EF or row["own_bank"] not in cold]


def matches_ef(data: Data) -> Iterator[Gap]:
    for panel in _here(data, "distribution-aware"):
        for row in _fidelity(data, panel):
            one, bank = row["d_smc_minus_asking"], row["own_bank"]
            gap = _signed(f"{panel}, {bank}", one["difference"], one["ci"], limit=-MARGIN["match"])
            yield _widened(gap, _drawn(data, panel, bank, D_SMC, "accuracy"))


def best_brier(data: Data) -> Iterator[Gap]:
    for panel in _here(data, "distribution-aware"):
        rows = {row["name"]: row["scores"] for row in data["distribution-aware"][panel]}
        for row in _fidelity(data, panel):
            bank = row["own_bank"]
            if f"{ABI}, {bank}" not in rows:
                continue  # without the network the claim is not the paper's
            spread = _drawn(data, panel, bank, D_SMC, "brier")
            yield _minus(f"{panel}, EF of {bank}", row["scores"], rows[f"{D_SMC}, {bank}"], "brier", spread=spread)
            yield _minus(f"{panel}, ABI over {bank}", rows[f"{ABI}, {bank}"], rows[f"{D_SMC}, {bank}"], "brier")


def cheap(data: Data) -> Iterator[Gap]:
    live = data["paper-settings"]["live_d_smc_seconds"]
    for panel in _here(data, "distribution-aware"):
        network = next(r["inference_seconds"] for r in data["distribution-aware"][panel] if r["name"] == ABI)
        yield Gap(f"{panel}, orders of magnitude beyond four", log10(live / network) - 4)


def _errors(data: Data) -> Iterator[tuple[str, Data, Data]]:
    rows = data["error-detection"][REPORTS]
    for row in rows.values():
        if row["method"] in ASKING and "own_bank" in row:
            yield f"{row['method']} of {row['own_bank']}", row, rows[f"{M_SMC}, {row['own_bank']}"]


def thirty_times(data: Data) -> Iterator[Gap]:
    for what, asked, own in _errors(data):
        value = log10(asked["e_aurc"] / own["e_aurc"]) - log10(MARGIN["fold"])
        arms = [max(log10(r["ci"]["e_aurc"][1] / r["e_aurc"]), 1e-9) for r in (asked, own)]
        gap = _give(f"{what}, powers of ten beyond ten times", value, hypot(*arms))
        yield _widened(gap, _drawn(data, REPORTS, own["bank"], M_SMC, "e_aurc") / own["e_aurc"] / log(10))


def best_baseline(data: Data) -> Iterator[Gap]:
    for row in _fidelity(data, REPORTS):
        others = [r for r in data["main-results"][REPORTS].values()
                  if r["method"] in (ML, EP, PE) and r.get("own_bank") == row["own_bank"]]  # fmt: skip
        best = max(others, key=lambda r: r["accuracy"])
        yield _minus(f"{row['own_bank']}, EF − {best['method']}", row["scores"], best, "accuracy")


def uninformative(data: Data) -> Iterator[Gap]:
    rows = [row for what, row, _ in _errors(data) if what.startswith(EF)]
    value = MARGIN["uninformative"] - fmean(row["error_auroc"] for row in rows)
    arm = sqrt(sum((row["ci"]["error_auroc"][1] - row["ci"]["error_auroc"][0]) ** 2 for row in rows)) / 2 / len(rows)
    yield _give(f"mean AUROC of EF over {len(rows)} models, below .644 by", value, arm)


def _labels(data: Data, name: str) -> Data:
    return data["calibrated-embedding"][REPORTS]["rows"][name]["scores"]


def below(data: Data) -> Iterator[Gap]:
    rows = data["risk-coverage"][SYMPTOMS]
    for name, own in rows.items():
        if name.startswith(f"{M_SMC}, "):
            model = name.split(", ")[1]
            for asked in (r for n, r in rows.items() if r["method"] in (ML, EF) and n.endswith(f"{model})")):
                for at, risk in asked["risk_at"].items():
                    cases = max(1.0, asked["n"] * float(at.rstrip("%")) / 100)
                    arm = 1.96 * sqrt(sum(r * (1 - r) + 0.25 / cases for r in (risk, own["risk_at"][at])) / cases)
                    gap = _give(f"{asked['method']} of {model} at {at}", risk - own["risk_at"][at], arm)
                    yield _widened(gap, _drawn(data, SYMPTOMS, model, M_SMC, at))


def split(data: Data) -> Iterator[Gap]:
    part = data["paper-settings"]["panels"][REPORTS]
    for name in ("total_bits", "aleatoric_bits"):
        one = part["network minus D-SMC"][name]
        yield Gap(f"network minus D-SMC, {name.split('_')[0]}", one["value"], *one["ci"])
    d, network = part["D-SMC, T = 5"], part["ABI, trained as the paper trains"]
    low, high = (d["epistemic_bits_ci"][i] / network["epistemic_bits_ci"][1 - i] - 2 for i in (0, 1))
    ratio = d["epistemic_bits"] / network["epistemic_bits"]
    yield Gap("epistemic, times the network's, less two", ratio - 2, low, high)


def _network(data: Data, panel: str) -> Data:
    return data["abi-fidelity"][f"{panel}, {TRAINED}"]


def right_there(data: Data) -> Iterator[Gap]:
    for panel in PANELS:
        found = _network(data, panel)["disagreement"]
        if found["accuracy"]:
            a, d, n = found["accuracy"]["abi"], found["accuracy"]["d-smc"], found["n"]
            yield _give(f"{panel}, {n} cases", a - d, 1.96 * sqrt(max(a + d - (a - d) ** 2, 0.25) / n))


def twice(data: Data) -> Iterator[Gap]:
    for panel in PANELS:
        network, most = _network(data, panel), MARGIN["most concentrated"]
        yield _against(f"{panel}, ratio above one", network, "alpha0_ratio", 1)
        yield _against(f"{panel}, ratio below four", network, "alpha0_ratio", most, -1)


def _misled(data: Data, method: str) -> Data:
    return next(r["misleading"] for r in data["prior-sensitivity"][ORAL][method] if r["count"] == 5)


def _even(data: Data, method: str) -> float:
    """Accuracy under the even prior."""
    row = next(r["informative"] for r in data["prior-sensitivity"][ORAL][method] if r["count"] == 1)
    return row["accuracy"]["value"]


def _outside(data: Data, panel: str) -> dict[str, Data]:
    return {row["method"]: row for row in data["out-of-class"][panel]}


def more_diffuse(data: Data) -> Iterator[Gap]:
    for panel in (ORAL, SYMPTOMS):
        rows = _outside(data, panel)
        own = rows[M_SMC]
        for way in (ML, EP):
            same = [r for name, r in rows.items() if name.startswith(f"{way} (")] or [
                r for name, r in rows.items() if name.startswith(f"{way}, ")]  # fmt: skip
            if same:
                value = own["outside"] - fmean(r["outside"] for r in same)
                arm = hypot(*(r["outside_ci"][1] - r["outside"] for r in (own, *same)))
                yield _give(f"{panel}, {way}, mean of {len(same)} models", value, arm)


def _step(data: Data, what: str, first: int, sign: float = 1.0, margin: float = 0.0) -> Gap:
    """Mass on the true label in the last population minus that in an earlier one."""
    steps = data["smc-dynamics"]["panels"][REPORTS]["d-smc"]["steps"]
    a, b = ({"p": steps[t]["p_true"], "ci": {"p": steps[t]["p_true_ci"]}} for t in (-1, first))
    return _minus(what, a, b, "p", sign, margin)


def one_confusion(data: Data) -> Iterator[Gap]:
    row = data["error-structure"][ORAL]["errors"][M_SMC]
    n = row["errors"]
    share, arm = row["confusions"][0]["n"] / n - MARGIN["one confusion"], 1.96 * sqrt(0.25 / n)
    yield _give("share of the most frequent confusion, less .9", share, arm)
    yield Gap("mass on the wrong label, less .8", row["wrong_label_mass"] - MARGIN["confident"])


def _rounded(data: Data) -> list[Data]:
    return [pair for pair in data["quantisation-ablation"].values() if pair["bits"] == 4]


def unhurt(data: Data) -> Iterator[Gap]:
    for pair in _rounded(data):
        panel = pair["panel"]
        for metric, sign in (("ece", -1), ("brier", -1), ("accuracy", 1)):
            one, spread = pair["difference"][metric], [_drawn(data, panel, b, M_SMC, metric) for b in pair["banks"]]
            yield _widened(
                _signed(f"{panel}, {metric}", one["value"], one["ci"], sign, -sign * MARGIN["match"]), *spread
            )


def logits_hurt(data: Data) -> Iterator[Gap]:
    for pair in _rounded(data):
        four = next(row for name, row in pair["asked"].items() if name.startswith("ML (") and name.endswith("-q4)"))
        full = next(row for name, row in pair["asked"].items() if name.startswith("ML (") and not name.endswith("q4)"))
        for metric in ("ece", "brier"):
            yield _minus(f"{pair['panel']}, {metric}", four, full, metric)


def coldest(data: Data) -> Iterator[Gap]:
    for one in data["temperature-ablation"]["series"]:
        points = {p["temperature"]: {"ece": p["ece"]["debiased"], "ci": {"ece": p["ece"]["ci"]}} for p in one["points"]}
        if one["panel"] == ORAL and one["what"] == M_SMC and 0.2 in points:
            worst = max((t for t in points if t != 0.2), key=lambda t: points[t]["ece"])
            spread = [_drawn(data, ORAL, f"{one['model']}-t{t:.1f}", M_SMC, "ece") for t in (0.2, worst)]
            gap = _minus(f"{one['model']}, ECE at .2 − at {worst:g}", points[0.2], points[worst], "ece")
            yield _widened(gap, *spread)


def few(data: Data) -> Iterator[Gap]:
    """Each bank by itself; pools spread by their range over five draws."""
    rows = [r for r in data["pool-size"]["rows"] if (r["panel"], r["method"]) == (ORAL, "d-smc")]
    for bank in dict.fromkeys(r["bank"] for r in rows if r["bank"].startswith("qwen")):
        by = {r["size"]: r for r in rows if r["bank"] == bank and r["distinct"][0] >= r["size"]}
        for small, large, margin in ((50, 500, MARGIN["match"]), (3, 50, MARGIN["three texts"])):
            a, b = by[small], by[large]
            ranges = ((r["accuracy_range"][1] - r["accuracy_range"][0]) / 2.33 / sqrt(r["pools"]) for r in (a, b))
            value = margin - (b["means"]["accuracy"] - a["means"]["accuracy"])
            yield _give(f"{bank}, {small} against {large}", value, 1.96 * hypot(*ranges, 0.01))


def rescaled(data: Data) -> Iterator[Gap]:
    for panel in _here(data, "post-hoc-calibration"):
        for block in data["post-hoc-calibration"][panel]:
            if f"{ML} + TS" in block["rows"]:
                ml, own = block["rows"][f"{ML} + TS"]["scores"], block["rows"][M_SMC]["scores"]
                bank = block["title"].rpartition("simulations of ")[2]
                spread = {m: _drawn(data, panel, bank, M_SMC, m) for m in ("accuracy", "ece")}
                yield _minus(f"{panel}, {bank}, accuracy", own, ml, "accuracy", spread=spread["accuracy"])
                yield _minus(f"{panel}, {bank}, ECE", ml, own, "ece", margin=MARGIN["match"], spread=spread["ece"])


def _their_mean(artefact: str, quantity: str, panel: str, method: str) -> float:
    """Over the paper's models."""
    return fmean(_each(artefact, quantity, panel, method).values())


def _their_models(panel: str) -> Models:
    by = {m: _each("main-results", "accuracy", panel, m) for m in (ML, EP, PE, M_SMC)}
    return [(max(by[w][m] for w in (ML, EP, PE)), by[ML][m], by[M_SMC][m]) for m in by[ML]]


def _their_matches() -> Iterator[Gap]:
    for panel in PANELS:
        asked = _each("distribution-aware", "accuracy", panel, EF)
        for model, own in _each("distribution-aware", "accuracy", panel, D_SMC).items():
            yield Gap(f"{panel}, {model}", own - asked[model] + MARGIN["match"])


def _their_split() -> Iterator[Gap]:
    for part in ("total_bits", "aleatoric_bits", "epistemic_bits"):
        d, abi = (_their_mean("uncertainty-decomposition", part, REPORTS, m) for m in (D_SMC, ABI))
        yield Gap(part, d / abi - 2 if part.startswith("epistemic") else abi - d)


def _their_ratio() -> Iterator[Gap]:
    d, abi = (_their_mean("uncertainty-decomposition", "alpha0", REPORTS, m) for m in (D_SMC, ABI))
    yield from (Gap("above one", abi / d - 1), Gap("below four", MARGIN["most concentrated"] - abi / d))


def _their_capabilities() -> Iterator[Gap]:
    for method in (M_SMC, D_SMC, ABI):
        able = [q.value for q in quotes("capabilities", method=method) if q.quantity != "sampler_per_case"]
        yield Gap(method, len(able) - sum(able))


def _their_embeddings() -> Iterator[Gap]:
    by = {q.setting: q.value for q in quotes("embedding-ablation", quantity="accuracy", data="oral")}
    general = {"text-embedding-3-large", "all-MiniLM-L6-v2"}
    yield Gap("", min(v for n, v in by.items() if n in general) - max(v for n, v in by.items() if n not in general))


# --------------------------------------------------------------------------- the claims


RULES: dict[str, Ours] = {
    rule.__name__: rule
    for rule in (on_average, matches_ef, best_brier, cheap, thirty_times, best_baseline, uninformative, below, split,
                 right_there, twice, more_diffuse, one_confusion, unhurt, logits_hurt, coldest, few, rescaled)
} | {
    "stability": lambda d: [_stability(p, some) for p in _here(d, "main-results") if len(some := _models(d, p)) > 1],
    "margin": lambda d: [_correlation(p, some) for p in _here(d, "main-results") if len(some := _models(d, p)) > 1],
    "error_auroc": lambda d: _differences(d, REPORTS, "error_auroc", -1),
    "e_aurc": lambda d: _differences(d, REPORTS, "e_aurc", 1),
    "ece_of_asking": lambda d: _differences(d, REPORTS, "ece", 1),
    "centroid": lambda d: [_minus("ECE, within .02", _labels(d, "centroid + TS"), _labels(d, M_SMC), "ece",
                                  margin=MARGIN["comparable"], spread=_drawn(d, REPORTS, REFERENCE, M_SMC, "ece"))],
    "same_labels": lambda d: [_minus(m, _labels(d, "ABI + TS"), _labels(d, "centroid + TS"), m, sign)
                              for m, sign in (("accuracy", 1), ("brier", -1))],
    "same_label": lambda d: [_against(f"{what}, less .95", _network(d, REPORTS), name, MARGIN["faithful"])
                             for what, name in (("agreement", "agreement"), ("r", "correlation_of_means"))],
    "small_divergence": lambda d: [_against("nats below .2", _network(d, REPORTS), "kl_nats", MARGIN["divergence"],
                                            -1)],
    "degenerate": lambda d: [_against("median α₀ at T = 11, less 500",
                                      d["paper-settings"]["panels"][ORAL]["D-SMC, T = 11"], "alpha0", 500)],
    "recovers": lambda d: [_against("mass on the true label, less .5", _misled(d, "m-smc"), "posterior_on_true", 0.5),
                           _against("accuracy lost, less than .01", _misled(d, "m-smc"), "accuracy",
                                    _even(d, "m-smc") - MARGIN["printed"])],
    "does_not": lambda d: [_against("accuracy below half", _misled(d, "d-smc"), "accuracy", _even(d, "d-smc") / 2, -1)],
    "most_diffuse": lambda d: [_against("bits beyond 2.45", _outside(d, SYMPTOMS)[M_SMC], "outside",
                                        MARGIN["maximal"])],
    "concentrates": lambda d: [_step(d, "mass, last minus first", 0)],
    "no_gain": lambda d: [_step(d, "gain, less than .01", 5, -1, MARGIN["printed"])],
    "live": lambda d: [_against(f"{p}, total variation from the closed form below .1", row, "total_variation", 0.1, -1)
                       for p, row in d["algorithm-1"]["panels"].items()],
    "cosines": lambda d: [_minus("ECE", d["cosine-ablation"]["scores"][REPORTS]["embedding cosine, normalised"],
                                 d["cosine-ablation"]["scores"][REPORTS][M_SMC], "ece",
                                 spread=_drawn(d, REPORTS, REFERENCE, M_SMC, "ece"))],
}  # fmt: skip
# Of the paper's figures: what is no plain difference.
THEIRS: dict[str, Theirs] = {
    "stability": lambda: [_stability(ORAL, _their_models(ORAL))],
    "margin": lambda: [_correlation(p, _their_models(p)) for p in PANELS],
    "matches_ef": _their_matches,
    "cheap": lambda: [Gap(REPORTS, log10(_one("distribution-aware", "latency_s", "multicare", D_SMC)
                                         / _one("distribution-aware", "latency_s", "multicare", ABI)) - 4)],
    "thirty_times": lambda: [Gap(w, log10(_one("error-detection", "e_aurc", "multicare", w)
                                          / _one("error-detection", "e_aurc", "multicare", M_SMC) / MARGIN["fold"]))
                             for w in ASKING],
    "split": _their_split,
    "ece_of_asking": lambda: [Gap(w, v) for w in ASKING
                              for v in _each("significance", "delta_ece", REPORTS, w).values()],
    "right_there": lambda: [Gap("", _one("abi-fidelity", "abi_right_where_they_differ", "multicare", ABI)
                                - _one("abi-fidelity", "dsmc_right_where_they_differ", "multicare", ABI))],
    "twice": _their_ratio,
    "does_not": lambda: [Gap("", _one("prior-sensitivity", "accuracy", "oral", "D-SMC at uniform") / 2
                             - _one("prior-sensitivity", "accuracy", "oral", "D-SMC at misleading"))],
    "most_diffuse": lambda: [Gap("", _their_mean("out-of-class", "entropy_bits", SYMPTOMS, M_SMC) - MARGIN["maximal"])],
    "more_diffuse": lambda: [Gap(f"{p}, {w}", _their_mean("out-of-class", "entropy_bits", p, M_SMC)
                                 - _their_mean("out-of-class", "entropy_bits", p, w))
                             for p in (ORAL, SYMPTOMS) for w in (ML, EP)],
    "every_capability": _their_capabilities,
    "embeddings": _their_embeddings,
}  # fmt: skip


def _claim(name: str, need: str = "every", theirs: Sequence[Mapping[str, Any]] = (), **words: str) -> Claim:
    listed: Theirs = lambda: [gap for one in theirs for gap in _listed(**one)]  # noqa: E731
    return Claim(need=need, ours=RULES.get(name, lambda _: ()), theirs=THEIRS.get(name, listed), **words)


CLAIMS = tuple(_claim(name, **about) for name, about in _FILE["claims"].items())
