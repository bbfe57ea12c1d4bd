"""The records of the paper's artefacts as files: one HTML page, the claims, every table, and the page for docs/."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isinf
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from pandas import DataFrame, concat

from paper import figures, tables
from paper.artefacts import ARTEFACTS, read_artefacts
from paper.claims import (
    AGREES,
    CLAIMS,
    DISAGREES,
    OPEN,
    UNTESTED,
    VERDICTS,
    Claim,
    Verdict,
    on_the_grid,
    said,
    verdicts,
)
from paper.posteriors import ON_THE_BANK, PAPERS_NETWORK
from paper.world import ASKING
from simdx.disk import write_atomically
from simdx.runs import Record

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=lambda name: name == "page.html",
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip
_BY_NAME = {one.name: one for one in ARTEFACTS}
GRIDS = ("primary", "wordllama", "facets")  # runs over models' own banks; the packaged bank decides no claim


PRIMARY = ("accuracy", "ece", "error_auroc", "e_aurc")  # the plan's measures


def figures_of(records: Sequence[Record]) -> dict[str, Any]:
    return {record.name: record["finding"]["data"] for record in records if record.done}


def grid(folder: Path) -> dict[str, list[Verdict]]:
    """The main grid's verdicts by what was varied: DIR/primary, DIR/wordllama, … hold records of a run each.

    Where DIR/case-reports has a folder of that name, the verdicts with its banks stand beside those without.
    """
    found: dict[str, list[Verdict]] = {}
    for name in (name for name in GRIDS if (folder / name).is_dir()):
        alone = figures_of(read_artefacts(folder / name))
        found[name] = on_the_grid(alone)
        if more := figures_of(read_artefacts(folder / "case-reports" / name)):
            both = {one: {**alone.get(one, {}), **more.get(one, {})} for one in {**alone, **more}}
            found[f"{name}, with case reports"] = on_the_grid(both)
    return found


def whole_embeddings(folder: Path) -> dict[str, Any]:
    """What `whole-embedding` found over the grid's banks, by embedding, panel and bank."""
    found: dict[str, Any] = {}
    for name, embedding in (("primary", "wordllama+mpnet"), ("wordllama", "wordllama")):
        records = [read_artefacts(folder / place) for place in (name, f"case-reports/{name}")]
        if some := {k: v for part in records for k, v in figures_of(part).get("whole-embedding", {}).items()}:
            found[embedding] = some
    return found


def whole_embeddings_csv(found: Mapping[str, Any]) -> str:
    parts = [table.assign(embedding=embedding, panel=panel) for embedding, some in found.items()
             for panel, table in tables.whole_embedding(some).items()]  # fmt: skip
    return concat(parts).set_index(["embedding", "panel"]).to_csv(lineterminator="\n")


def comparisons_csv(folder: Path) -> str:
    """The plan's primary comparisons, asking minus M-SMC over the same model's banks, with their intervals."""
    rows = []
    for arm, place in ((name, place) for name in GRIDS for place in (name, f"case-reports/{name}")):
        for panel, part in figures_of(read_artefacts(folder / place)).get("significance", {}).items():
            for one in (one for one in part["differences"].values() if one["model"]):
                about = {"arm": arm, "panel": panel} | {name: one[name] for name in ("model", "way", "draws")}
                rows.append(about | {name: _with_interval(one[name]) for name in PRIMARY})
    return DataFrame(rows).to_csv(index=False, lineterminator="\n")


def _with_interval(one: Mapping[str, Any]) -> str:
    low, high = one["ci"]
    return f"{one['difference']:+.3f}" + ("" if low is None else f" [{low:+.3f}, {high:+.3f}]")


def least_and_most(found: Mapping[str, Any]) -> dict[str, Any]:
    """Over all banks, of networks trained as the paper trains and on the bank: those that read the whole embedding
    and, as `beside`, those that read coordinates; and on how many banks a difference has its interval above nought,
    and below."""
    banks = [arms for of_panel in found.values() for arms in of_panel.values()]

    def span(some: Sequence[Mapping[str, Any]], name: str, form: str) -> str:
        ends = [format(of(one[name] for one in some), form).replace("-", "−") for of in (min, max)]
        return " to ".join(re.sub(r"^([+−]?)0\.", r"\1.", end) for end in ends)

    said: dict[str, Any] = {"banks": len(banks)}
    for key, name in (("papers", PAPERS_NETWORK), ("on_the_bank", ON_THE_BANK)):
        whole = [arms[f"{name}, whole embedding"] for arms in banks]
        said[key] = {"beside": {}}
        for part, form in (("alpha0", ",.0f"), ("agreement", ".2f"), ("agreement_outside", ".2f")):
            said[key][part] = span(whole, part, form)
            said[key]["beside"][part] = span([arms[name] for arms in banks], part, form)
        for metric in ("accuracy", "brier"):
            gaps = [one["minus_coordinates"][metric] for one in whole]
            up, down = sum(gap["ci"][0] > 0 for gap in gaps), sum(gap["ci"][1] < 0 for gap in gaps)
            said[key][metric] = {"gap": span(gaps, "difference", "+.3f"), "up": up, "down": down}
    return said


def counts(found: Sequence[Verdict]) -> str:
    by = Counter(one.verdict for one in found)
    return ", ".join(f"{by[word]} {word.replace('agrees', 'agree')}" for word in VERDICTS)


def html(records: Sequence[Record]) -> str:
    """The page: claims first, then a folded section for each artefact. No script, no request to any host."""
    found = verdicts(figures_of(records))
    return _TEMPLATES.get_template("page.html").render(
        verdicts=found, counts=counts(found), about=provenance(records), sections=map(_section, records),
        svg=figures.svg,
    )  # fmt: skip


def _word(verdict: str) -> str:
    return f"**{verdict}**" if verdict == DISAGREES else verdict


def markdown(records: Sequence[Record], picture: str, folder: Path, grids: Mapping[str, Sequence[Verdict]],
             whole: Mapping[str, Any]) -> str:  # fmt: skip
    """The page of the documentation: the claims, what differs, what could not be run."""
    found = verdicts(figures_of(records))
    return _TEMPLATES.get_template("results.md").render(
        verdicts=sorted(found, key=lambda one: (AGREES, DISAGREES, OPEN, UNTESTED).index(one.verdict)),
        files=f"../{folder.as_posix()}",
        counts=counts(found), about=provenance(records), picture=picture, word=_word,
        grids={name: counts(some) for name, some in grids.items()}, size=figures_of(records).get("ece-size"),
        whole={name: least_and_most(some) for name, some in whole.items()},
    )  # fmt: skip


def grid_markdown(grids: Mapping[str, Sequence[Verdict]]) -> str:
    """Every verdict of the main grid, arm beside arm."""

    def on(some: Sequence[Verdict], claim: Claim) -> str:
        one = next(one for one in some if one.claim == claim)
        return f"{_word(one.verdict)}, {len(one.gaps)} gap{'s'[: len(one.gaps) > 1]}" if one.gaps else "no record"

    def least(claim: Claim) -> str:
        wide = sorted(grids, key=lambda name: (not name.startswith(GRIDS[0]), "," not in name))
        gaps = next(v.gaps for name in wide for v in grids[name] if v.claim == claim and v.gaps)
        return said(min(gaps, key=lambda gap: gap.value))

    rows = [claim for claim in CLAIMS if any(v.gaps for some in grids.values() for v in some if v.claim == claim)]
    return _TEMPLATES.get_template("grid.md").render(grids=grids, on=on, rows=rows, least=least)


def claims_json(records: Sequence[Record]) -> str:
    found = verdicts(figures_of(records))
    rows = [
        {"place": v.claim.place, "claim": v.claim.says, "paper": v.claim.figures, "rule": v.claim.need,
         "verdict": v.verdict, "sentence": v.sentence,
         "gaps": [{k: None if isinstance(x, float) and isinf(x) else x for k, x in gap._asdict().items()}
                  for gap in v.gaps]}
        for v in found
    ]  # fmt: skip
    return json.dumps({"counts": counts(found), "claims": rows}, ensure_ascii=False, indent=1) + "\n"


def claims_csv(records: Sequence[Record]) -> str:
    rows = ((v.claim.place, v.claim.says, v.claim.figures, v.verdict, v.sentence)
            for v in verdicts(figures_of(records)))  # fmt: skip
    table = DataFrame(rows, columns=["place", "claim", "paper", "verdict", "sentence"])
    return table.to_csv(index=False, lineterminator="\n")


def picture(records: Sequence[Record]) -> Figure:
    """The one figure of the documentation: M-SMC minus asking in accuracy, on every panel."""
    rows: list[figures.Dot] = []
    for panel, part in figures_of(records)["significance"].items():
        for row in part["differences"].values():
            if row["model"] and row["way"] in ASKING:
                low, high = row["accuracy"]["ci"]
                around = None if low is None else (-high, -low)
                rows.append((f"{panel}: {row['way']}, {row['model']}", -row["accuracy"]["difference"], around, None))
    return figures.dots("accuracy of M-SMC over a model's own bank, minus that of asking the model (95 %)", rows)


def write(records: Sequence[Record], folder: Path) -> None:
    """Everything but the documentation's page into the folder of the records."""
    write_atomically(folder / "report.html", html(records))
    write_atomically(folder / "claims.json", claims_json(records))
    write_atomically(folder / "claims.csv", claims_csv(records))
    (folder / "tables").mkdir(exist_ok=True)
    for record in records:
        for i, (title, table) in enumerate(_section(record)["tables"].items(), start=1):
            place = folder / "tables" / f"{record.name}-{i}.csv"
            write_atomically(place, f"# {title}\n" + table.to_csv(index=False, lineterminator="\n"))


def _section(record: Record) -> dict[str, Any]:
    artefact = _BY_NAME[record.name]
    about = {"name": record.name, "title": artefact.title, "missing": None}
    if not record.done:
        return about | {"missing": f"{record.status}: {record.error}", "tables": {}, "notes": [], "cases": "",
                        "figures": {}}  # fmt: skip
    finding = record["finding"]
    return about | {
        "tables": artefact.tables(finding["data"]), "figures": artefact.figures(finding["data"]),
        "notes": finding["notes"], "cases": ", ".join(f"{p} {n}" for p, n in finding["n"].items()),
    }  # fmt: skip


def provenance(records: Sequence[Record]) -> list[str]:
    """Where all of it comes from; several answers stand side by side."""

    def distinct(values: Any) -> str:
        return ", ".join(dict.fromkeys(map(str, values)))

    missing = [f"{r.name} ({r.status})" for r in records if not r.done]
    configs = [r["config"] for r in records]
    return [
        f"{len(records) - len(missing)} of {len(records)} artefacts done"
        + (f"; not: {', '.join(missing)}" if missing else ""),
        f"scale {distinct(c['scale'] for c in configs)}, recipe {distinct(c.get('recipe', 1) for c in configs)}, "
        f"commit {distinct(r.versions.get('commit') or 'unknown' for r in records)}",
        *dict.fromkeys(f"left out: {reason}" for config in configs for reason in config["skipped"].values()),
    ]  # fmt: skip
