"""The records of the paper's artefacts as one self-contained HTML page, and as Markdown.

A record holds figures; the specs make tables, drawings and claims of them. The page has no script and asks
nothing of any host; it prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from paper.runner import artefact_list
from paper.spec import render as render_spec
from simdx.report.page import render, table

TITLE = "The paper's tables and figures, ours beside theirs"
INTRODUCTION = (
    "Every artefact of the paper run again with this software. “Paper” is the figure printed there, measured "
    "with six models of 7–8 billion parameters and a commercial embedding; ours are measured with what is "
    "named beside them, so agreement is agreement of findings, not of decimals. Intervals are 95 %, "
    "bootstrap over cases. Diamonds in drawings are the paper's figures."
)
Record = Mapping[str, Any]


def render_paper(records: Sequence[Record]) -> str:
    """The page. Records that failed or were not run have a section that says so."""
    shown = in_order(records)
    parts = [f"<style>{_CSS}</style><p>{escape(INTRODUCTION)}</p>", _about(shown), _contents(shown)]
    parts += [_section(record) for record in shown]
    return render(TITLE, [], preface="".join(parts))


def paper_markdown(records: Sequence[Record], source: str, command: str) -> str:
    """The same without the drawings. `source` is where the records lie, `command` what writes this."""
    shown = in_order(records)
    lines = [
        f"# {TITLE}",
        "",
        f"Written by `{command}` from the records in `{source}`; not edited by hand.",
        "",
    ]
    lines += [INTRODUCTION, "", *(f"- {line}" for line in _provenance(shown)), ""]
    for record in shown:
        lines += _markdown_section(record)
    return "\n".join(lines).rstrip() + "\n"


def shown_of(record: Record) -> dict[str, Any]:
    """What the artefact's spec makes of a record's figures."""
    return render_spec(artefact_list()[record["artefact"]], record["finding"])


def in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record["order"], record["artefact"]))


# --------------------------------------------------------------------------- the page


def _about(records: Sequence[Record]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in _provenance(records)) + "</ul>"


def _contents(records: Sequence[Record]) -> str:
    items = []
    for record in records:
        state = "" if record["status"] == "done" else f" ({record['status']})"
        link = f'<a href="#{escape(record["artefact"])}">{escape(record["title"])}</a>'
        items.append(f"<li>{link}{escape(state)}</li>")
    return "<nav><ol>" + "".join(items) + "</ol></nav>"


def _section(record: Record) -> str:
    out = [f'<section id="{escape(record["artefact"])}"><h2>{escape(record["title"])}</h2>']
    if record["finding"] is None:
        return "".join(out) + f"<p class='notice'>{escape(_missing(record))}</p></section>"
    shown = shown_of(record)
    out.append(f"<p class='about'>{escape(_measured_on(record))}</p>")
    said = "".join(f"<li>{escape(one['text'])}</li>" for one in shown["verdicts"])
    out.append(f"<ul class='verdicts'>{said}</ul>")
    for one in shown["tables"]:
        note = f"<p class='about'>{escape(one['note'])}</p>" if one["note"] else ""
        body = table(one["columns"], [[_unbroken(cell) for cell in row] for row in one["rows"]])
        out.append(f"<h3>{escape(one['title'])}</h3><div class='wide'>{body}</div>{note}")
    for figure in shown["figures"]:
        # The drawing is our own SVG, made of escaped words; it is the one thing put in as it is.
        out.append(f"<figure>{figure['svg']}<figcaption>{escape(figure['caption'])}</figcaption></figure>")
    out += [f"<p class='about'>{escape(note)}</p>" for note in record["finding"]["notes"]]
    return "".join(out) + "</section>"


def _unbroken(cell: str) -> str:
    """An interval or a range stays on one line: no break after its comma, none at its dash."""
    joined = re.sub(r"\[([^\]]*)\]", lambda m: m.group(0).replace(" ", "\u00a0"), cell)
    return re.sub(r"(?<=\d)–(?=\d)", "\u2060–\u2060", joined)


# --------------------------------------------------------------------------- words


def _provenance(records: Sequence[Record]) -> list[str]:
    """Where all of it comes from; several answers stand side by side."""
    if not records:
        return ["no artefact is on record"]

    def distinct(values: Sequence[str]) -> str:
        return ", ".join(dict.fromkeys(values))

    done = sum(record["status"] == "done" for record in records)
    missing = [f"{r['artefact']} ({r['status']})" for r in records if r["status"] != "done"]
    commits = distinct([str(record["versions"].get("commit") or "unknown") for record in records])
    banks = {panel: names for record in records for panel, names in record["config"]["banks"].items()}
    seconds = sum(record["seconds"] for record in records)
    return [
        f"{done} of {len(records)} artefacts done" + (f"; not: {', '.join(missing)}" if missing else ""),
        f"scale {distinct([r['config']['scale'] for r in records])}, seed "
        f"{distinct([str(r['config']['seed']) for r in records])}, "
        f"version {distinct([r['versions']['simdx'] for r in records])}, commit {commits}, "
        f"{seconds / 60:.1f} minutes in all",
        "banks: " + "; ".join(f"{panel}: {', '.join(names)}" for panel, names in banks.items()),
        *dict.fromkeys(
            f"left out: {reason}" for record in records for reason in record["config"]["skipped"].values()
        ),
    ]


def _measured_on(record: Record) -> str:
    finding = record["finding"]
    cases = ", ".join(f"{panel} {n}" for panel, n in finding["n"].items())
    models = ", ".join(finding["models"])
    said = [f"Cases: {cases}." if cases else "", f"Models: {models}." if models else ""]
    return " ".join(part for part in said if part)


def _missing(record: Record) -> str:
    return f"{record['status'].capitalize()}: {record['error']}"


def _markdown_section(record: Record) -> list[str]:
    lines = [f"## {record['title']}", ""]
    if record["finding"] is None:
        return [*lines, _missing(record), ""]
    shown = shown_of(record)
    about = _measured_on(record)
    lines += [about, ""] if about else []
    if shown["verdicts"]:
        lines += [*(f"- {one['text']}" for one in shown["verdicts"]), ""]
    for one in shown["tables"]:
        lines += [f"**{one['title']}**", "", _row(one["columns"]), "|" + "---|" * len(one["columns"])]
        lines += [*(_row(row) for row in one["rows"]), ""]
        lines += [one["note"], ""] if one["note"] else []
    for note in record["finding"]["notes"]:
        lines += [note, ""]
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


_CSS = """
main{max-width:1080px}.about{color:var(--soft);font-size:.9rem}.wide{overflow-x:auto}
.verdicts li{margin:.2rem 0}nav ol{columns:2;font-size:.9rem}section{break-inside:auto}
th,td{white-space:normal}figure{break-inside:avoid}tr{break-inside:avoid}
@media print{nav{display:none}body{font-size:11px}.wide{overflow:visible}}
"""
