"""The records of the paper's artefacts as one self-contained HTML page, and as Markdown.

A record holds figures; the specs make tables, drawings and claims of them. The page has no script and asks
nothing of any host; it prints.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from paper.claims import AGREES, DISAGREES, UNTESTED, verdicts
from paper.runner import artefact_list
from paper.spec import render as shown_of
from simdx.report.page import render, table
from simdx.runs import Record

CLAIMS_HEADING = "## The paper's claims, each once"
TITLE = "The paper's tables and figures, ours beside theirs"
INTRODUCTION = (
    "The paper's tables and figures measured again with this software, as far as that could be done here; what "
    "was not is named. “Paper” is the figure printed there, measured with six models of 7–8 billion parameters "
    "and a commercial embedding; ours are measured with what is named beside them, so agreement is agreement of "
    "findings, not of decimals. Intervals are 95 %, bootstrap over cases. Diamonds in drawings are the paper's "
    "figures."
)
DIFFERENCES = (
    "oral-lesions is not OLB-300, which could not be had here: 300 other vignettes of the same three "
    "conditions; case-reports is not the paper's part of MultiCaRe: 329 published case reports of seven "
    "conditions of our choice, because the paper does not list its seven; symptom-to-diagnosis is the paper's SD "
    "as far as it could be had, 233 of its 288 cases.",
    "The packaged banks (reference, and its two files bank_a and bank_b) were written by a large model. A model "
    "that was asked is compared with inference over the bank that it wrote itself: Qwen2.5-Coder-1.5B (500 texts "
    "a label; 33 on case reports) and SmolLM2-135M (500; 187). Means over simulators are over these two, on both "
    "sides.",
    "Banks were sampled at temperature 0.8, the paper's at 0.2; a section shows what temperature does. The "
    "embedding is wordllama where no other is named, the paper's text-embedding-3-large. M-SMC and D-SMC without "
    "further words are their closed-form limits at T = 5; “particles” are 100 of them through all T populations.",
    "ML, EP, PE and EF are the paper's four ways: one prompt in one order, three guesses, eight prompts, ten "
    "samples, all at 0.2; the prompts are our own, of the same kind. EP was held to its form: asked freely at 0.2, "
    "Qwen's guesses can hardly ever be read. SmolLM2's PE was decoded greedily and held to its form. “ML, all "
    "orders” is averaged over the rotations of the list of options, “EF at 0.7” has warmer samples: where a model "
    "was not asked in the paper's way, these stand in under their own names.",
    "Not run: the paper's six models and its embeddings; SmolLM2's PE at 0.2; banks by weights of two bits on oral "
    "lesions (5 of 450 texts on carcinoma were usable), and of two and four bits on case reports (none on "
    "endocarditis, and 5 of 250 on malaria).",
    "All figures, the recipe's among them, are of the posterior over the labels alone; the README's table has the "
    "recipe's whole answer, none of these included, with constants chosen on other panels.",
)
_CLAIM_HEADS = ("where", "the paper claims", "its figure", "ours", "verdict", "rule, and why")
_CSS = """
main{max-width:1080px}.about{color:var(--soft);font-size:.9rem}.wide{overflow-x:auto}
.verdicts li{margin:.2rem 0}nav ol{columns:2;font-size:.9rem}section{break-inside:auto}
th,td{white-space:normal}figure{break-inside:avoid}tr{break-inside:avoid}
@media print{nav{display:none}body{font-size:11px}.wide{overflow:visible}}
"""


def render_paper(records: Sequence[Record]) -> str:
    """The page. Records that failed or were not run have a section that says so."""
    shown = _in_order(records)
    about = "".join(f"<li>{escape(line)}</li>" for line in _provenance(shown))
    links = "".join(
        f'<li><a href="#{escape(r.name)}">{escape(_title(r))}</a>{"" if r.done else f" ({r.status})"}</li>'
        for r in shown
    )
    apart = "".join(f"<li>{escape(line)}</li>" for line in DIFFERENCES)
    claims = table(_CLAIM_HEADS, [[cell.replace("**", "") for cell in row] for row in claim_rows(shown)])
    head = (
        f"<style>{_CSS}</style><p>{escape(INTRODUCTION)}</p><ul>{about}</ul><h2>What differs</h2><ul>{apart}</ul>"
        f"<h2>The paper's claims</h2><div class='wide'>{claims}</div><nav><ol>{links}</ol></nav>"
    )
    return render(TITLE, [], preface=head + "".join(part for r in shown for part in _section(r)))


def paper_markdown(records: Sequence[Record], source: str, command: str) -> str:
    """The same without the drawings. `source` is where the records lie, `command` what writes this."""
    shown = _in_order(records)
    written = f"Written by `{command}` from the records in `{source}`; not edited by hand."
    lines = [f"# {TITLE}", "", written, "", INTRODUCTION, "", *(f"- {line}" for line in _provenance(shown)), ""]
    lines += ["## What differs from the paper", "", *(f"- {line}" for line in DIFFERENCES), ""]
    rows = claim_rows(shown)
    held = {word: sum(row[4].strip("*") == word for row in rows) for word in (AGREES, DISAGREES, UNTESTED)}
    counts = ", ".join(f"{word} {n}" for word, n in held.items())
    lines += [CLAIMS_HEADING, "", f"Of {len(rows)}: {counts}.", ""]
    lines += [_row(_CLAIM_HEADS), "|" + "---|" * len(_CLAIM_HEADS), *map(_row, rows), ""]
    return "\n".join([*lines, *(line for r in shown for line in _markdown_section(r))]).rstrip() + "\n"


def claim_rows(records: Sequence[Record]) -> list[list[str]]:
    """The one table of claims; a verdict that goes against the paper is bold."""
    data = {r.name: r["finding"]["data"] for r in records if r.done}
    rows = []
    for one in verdicts(data):
        word = f"**{one.verdict}**" if one.verdict == DISAGREES else one.verdict
        why = f"{one.claim.rule}. {one.why[:1].upper()}{one.why[1:]}".strip()
        rows.append([one.claim.place, one.claim.says, one.claim.theirs, one.ours, word, why])
    return rows


def _in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (artefact_list()[record.name].order, record.name))


def _title(record: Record) -> str:
    return artefact_list()[record.name].title


def _section(record: Record) -> Iterator[str]:
    yield f'<section id="{escape(record.name)}"><h2>{escape(_title(record))}</h2>'
    if record.done:
        shown = shown_of(artefact_list()[record.name], record["finding"])
        yield f"<p class='about'>{escape(_measured_on(record))}</p>"
        yield "<ul class='verdicts'>" + "".join(f"<li>{escape(said)}</li>" for said in shown["verdicts"]) + "</ul>"
        for one in shown["tables"]:
            body = table(one["columns"], [[_unbroken(cell) for cell in row] for row in one["rows"]])
            yield f"<h3>{escape(one['title'])}</h3><div class='wide'>{body}</div>"
            yield f"<p class='about'>{escape(one['note'])}</p>" if one["note"] else ""
        for figure in shown["figures"]:
            # The drawing is our own SVG, made of escaped words; it is the one thing put in as it is.
            yield f"<figure>{figure['svg']}<figcaption>{escape(figure['caption'])}</figcaption></figure>"
        yield from (f"<p class='about'>{escape(note)}</p>" for note in record["finding"]["notes"])
    else:
        yield f"<p class='notice'>{escape(_missing(record))}</p>"
    yield "</section>"


def _markdown_section(record: Record) -> Iterator[str]:
    yield from (f"## {_title(record)}", "")
    if not record.done:
        yield from (_missing(record), "")
        return
    shown, about = shown_of(artefact_list()[record.name], record["finding"]), _measured_on(record)
    yield from (about, "") if about else ()
    yield from (*(f"- {said}" for said in shown["verdicts"]), "") if shown["verdicts"] else ()
    for one in shown["tables"]:
        yield from (f"**{one['title']}**", "", _row(one["columns"]), "|" + "---|" * len(one["columns"]))
        yield from (*map(_row, one["rows"]), "")
        yield from (one["note"], "") if one["note"] else ()
    for note in record["finding"]["notes"]:
        yield from (note, "")


def _unbroken(cell: str) -> str:
    """An interval or a range stays on one line: no break after its comma, none at its dash."""
    joined = re.sub(r"\[([^\]]*)\]", lambda m: m.group(0).replace(" ", "\u00a0"), cell)
    return re.sub(r"(?<=\d)–(?=\d)", "\u2060–\u2060", joined)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _provenance(records: Sequence[Record]) -> list[str]:
    """Where all of it comes from; several answers stand side by side."""

    def distinct(values: Iterable[object]) -> str:
        return ", ".join(dict.fromkeys(map(str, values)))

    if not records:
        return ["no artefact is on record"]
    missing = [f"{r.name} ({r.status})" for r in records if not r.done]
    configs = [r["config"] for r in records]
    banks = {panel: names for config in configs for panel, names in config["banks"].items()}
    return [
        f"{len(records) - len(missing)} of {len(records)} artefacts done"
        + (f"; not: {', '.join(missing)}" if missing else ""),
        f"scale {distinct(c['scale'] for c in configs)}, seed {distinct(c['seed'] for c in configs)}, "
        f"version {distinct(r.versions['simdx'] for r in records)}, "
        f"commit {distinct(r.versions.get('commit') or 'unknown' for r in records)}, "
        f"{sum(r.cost.get('seconds', 0) for r in records) / 60:.1f} minutes in all",
        "banks: " + "; ".join(f"{panel}: {', '.join(names)}" for panel, names in banks.items()),
        *dict.fromkeys(f"left out: {reason}" for config in configs for reason in config["skipped"].values()),
    ]


def _measured_on(record: Record) -> str:
    cases = ", ".join(f"{panel} {n}" for panel, n in record["finding"]["n"].items())
    models = ", ".join(record["finding"]["models"])
    earlier = "" if "recipe" in record["config"] else "“Recipe” here is that of an earlier version."
    return " ".join(part for part in (cases and f"Cases: {cases}.", models and f"Models: {models}.", earlier) if part)


def _missing(record: Record) -> str:
    return f"{record.status.capitalize()}: {record.error}"
