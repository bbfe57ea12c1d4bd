"""The records of the paper's artefacts as files: one HTML page, the claims, every table, and the page for docs/."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from pandas import DataFrame

from paper import figures
from paper.artefacts import ARTEFACTS, read_artefacts
from paper.claims import AGREES, DISAGREES, OPEN, UNTESTED, VERDICTS, Claim, Verdict, on_the_grid, said, verdicts
from simdx.disk import write_atomically
from simdx.runs import Record

_HERE = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE), autoescape=lambda name: name == "page.html", undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip
_BY_NAME = {one.name: one for one in ARTEFACTS}


def decided(records: Sequence[Record]) -> list[Verdict]:
    return verdicts({r.name: r["finding"]["data"] for r in records if r.done})


GRIDS = ("primary", "wordllama", "facets")  # runs over models' own banks; the packaged bank decides no claim


def grid(folder: Path) -> dict[str, list[Verdict]]:
    """The main grid's verdicts by what was varied: DIR/primary, DIR/wordllama, … hold records of a run each."""
    found = {name: read_artefacts(folder / name) for name in GRIDS if (folder / name).is_dir()}
    return {name: on_the_grid({r.name: r["finding"]["data"] for r in some if r.done}) for name, some in found.items()}


def counts(found: Sequence[Verdict]) -> str:
    by = Counter(one.verdict for one in found)
    return ", ".join(f"{by[word]} {word.replace('agrees', 'agree')}" for word in VERDICTS)


def html(records: Sequence[Record]) -> str:
    """The page: claims first, then a folded section for each artefact. No script, no request to any host."""
    found = decided(records)
    return _TEMPLATES.get_template("page.html").render(
        verdicts=found, counts=counts(found), about=provenance(records), sections=list(_sections(records)),
        svg=figures.svg,
    )  # fmt: skip


def markdown(records: Sequence[Record], picture: str, folder: Path, grids: Mapping[str, Sequence[Verdict]]) -> str:
    """The page of the documentation: the claims, what differs, what could not be run."""
    found = decided(records)
    return _TEMPLATES.get_template("results.md").render(
        verdicts=sorted(found, key=lambda one: (AGREES, DISAGREES, OPEN, UNTESTED).index(one.verdict)),
        files=f"../{folder.as_posix()}",
        counts=counts(found), about=provenance(records), picture=picture, word=_word, grids=grids, on=_on,
        worst=lambda one: said(min(one.gaps, key=lambda gap: gap.value)),
    )  # fmt: skip


def claims_json(records: Sequence[Record]) -> str:
    rows = [
        {"place": v.claim.place, "claim": v.claim.says, "paper": v.claim.figures, "rule": v.claim.need,
         "verdict": v.verdict, "sentence": v.sentence, "gaps": [_finite(gap._asdict()) for gap in v.gaps]}
        for v in decided(records)
    ]  # fmt: skip
    return json.dumps({"counts": counts(decided(records)), "claims": rows}, ensure_ascii=False, indent=1) + "\n"


def claims_csv(records: Sequence[Record]) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("place", "claim", "paper", "verdict", "sentence"))
    rows.writerows((v.claim.place, v.claim.says, v.claim.figures, v.verdict, v.sentence) for v in decided(records))
    return out.getvalue()


def picture(records: Sequence[Record]) -> Figure:
    """The one figure of the documentation: M-SMC minus asking in accuracy, on every panel."""
    data = next(r["finding"]["data"] for r in records if r.name == "significance" and r.done)
    rows: list[figures.Dot] = []
    for panel, part in data.items():
        for row in part["differences"].values():
            if row["model"] and row["way"] in ("ML", "EP", "PE", "EF"):
                low, high = row["accuracy"]["ci"]
                name = f"{panel}: {row['way']}, {row['model']}"
                around = None if low is None else (-high, -low)
                rows.append((name, -row["accuracy"]["difference"], around, None))
    return figures.dots("accuracy of M-SMC over a model's own bank, minus that of asking the model (95 %)", rows)


def write(records: Sequence[Record], folder: Path) -> None:
    """Everything but the documentation's page into the folder of the records."""
    write_atomically(folder / "report.html", html(records))
    write_atomically(folder / "claims.json", claims_json(records))
    write_atomically(folder / "claims.csv", claims_csv(records))
    (folder / "tables").mkdir(exist_ok=True)
    for record in records:
        for i, (title, table) in enumerate(_tables(record).items(), start=1):
            place = folder / "tables" / f"{record.name}-{i}.csv"
            write_atomically(place, f"# {title}\n" + table.to_csv(index=False, lineterminator="\n"))


def _tables(record: Record) -> dict[str, DataFrame]:
    return _BY_NAME[record.name].tables(record["finding"]["data"]) if record.done else {}


def _sections(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    for record in records:
        artefact = _BY_NAME[record.name]
        yield {
            "name": record.name, "title": artefact.title,
            "missing": None if record.done else f"{record.status}: {record.error}",
            "tables": _tables(record), "notes": record["finding"]["notes"] if record.done else [],
            "cases": ", ".join(f"{p} {n}" for p, n in record["finding"]["n"].items()) if record.done else "",
            "figures": artefact.figures(record["finding"]["data"]) if record.done else {},
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


def _on(found: Sequence[Verdict], claim: Claim) -> str:
    one = next(one for one in found if one.claim == claim)
    return f"{_word(one.verdict)}, {len(one.gaps)} gaps" if one.gaps else "no record"


def _word(verdict: str) -> str:
    return f"**{verdict}**" if verdict == DISAGREES else verdict


def _finite(gap: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and abs(v) == float("inf") else v for k, v in gap.items()}
