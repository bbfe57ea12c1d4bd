"""Banks one model wrote at several temperatures (`{panel}-{model}-t0.4` in $SIMDX_BANKS), M-SMC with each on the same
cases; and ML, the option letters' logits at each temperature, one prompt in one order. Where there are no such banks,
the artefact is not run."""

from collections.abc import Iterator
from typing import Any

from paper.cells import NONE
from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Table, as_one, keys, lines, marked, metrics, of_rows, read, their_line
from paper.theirs import grouped
from simdx.report.plots import Series

HEADS = {"accuracy": "accuracy", "brier": "Brier", "ece": "ECE"}


def rows(b: Block) -> Iterator[dict[str, Any]]:
    for point in b.d["points"]:
        texts = f"{point['texts'] or NONE}" + ("" if point["complete"] else ", a label short of its number")
        yield point | {"method": b.d["what"], "setting": f"{point['temperature']:.1f}", "texts": texts}


def asked(b: Block) -> Iterator[dict[str, Any]]:
    """The paper's rows that have no counterpart here: ways of asking that were not run at several temperatures."""
    if "EP" not in {one["what"] for one in b.d["series"]}:
        for (way, setting), own in grouped(b.artefact, method="EP").items():
            yield {"asked": way, "setting": setting, **own}


def drawn(b: Block) -> list[Series]:
    points = {point["temperature"]: point for point in b.d["points"]}
    own = [marked(HEADS[name], {t: read(point, name) for t, point in points.items()}) for name in ("ece", "brier")]
    return own + their_line(b, "ECE, the paper", "ece", method=b.d["what"])


def claims(b: Block) -> Iterator[str]:
    ece = {p["temperature"]: p["ece"] for p in b.d["points"]}
    best, worst = (f(ece, key=lambda t: ece[t]["value"]) for f in (min, max))
    apart = ece[best]["ci"] and ece[worst]["ci"] and ece[best]["ci"][1] < ece[worst]["ci"][0]
    coldest, short = min(ece), ", ".join(f"{p['temperature']:g}" for p in b.d["points"] if not p["complete"])
    yield (f"{b.panel}, {b.d['what']}: ECE runs from {ece[best]['value']:.3f} at {best:g} to {ece[worst]['value']:.3f} "
           f"at {worst:g}; {'' if apart else 'their intervals overlap, so temperature has no sure effect, '}and the "
           f"lowest temperature that was run, {coldest:g}, is {'' if worst == coldest else 'not '}the worst"
           + (f". At {short} the model did not fill every label within its requests." if short else "."))


ARTEFACT = Artefact(
    "Sampling temperature of the simulator (table S17)", 440, ablations.temperature_ablation,
    each=of_rows("series", apart=True), claims=claims,
    tables=(Table("{panel}: {what}, {model}", rows,
                  (*keys("temperature=setting | usable texts=texts"), *metrics(HEADS, paper_head="paper", at="")),
                  "95 % bootstrap over cases. The paper's model is Mistral with a thousand texts per label."),
            Table("Models asked directly: the paper's figures alone", asked,
                  (*keys("asked | temperature=setting"),
                   Column("Brier", lambda r: "not run", lambda r: r["brier"], paper_head="paper"),
                   Column("ECE", lambda r: "not run", lambda r: r["ece"], paper_head="paper")), each=as_one)),
    drawings=(lines("Calibration by temperature, {panel}", ("sampling temperature", "ECE, Brier"), drawn,
                    {t / 5: f"{t / 5:.1f}" for t in range(1, 6)}, "{panel}, {what}: calibration at each temperature of "
                    "{model}, 95 % bootstrap.", x=(0.0, 1.2)),),
)
