"""Answers as one self-contained HTML page: no script, no request to any host, readable in print."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from simdx.answer import Answer
from simdx.panels import disclaimer
from simdx.report import svg
from simdx.types import Float, Panel


@dataclass(frozen=True, slots=True)
class Section:
    """One case on the page: a heading, the text that was classified, and its answer."""

    heading: str
    text: str
    answer: Answer
    comment: str = ""
    simplex: Float | None = None  # draws from the simplex posterior, for the picture


def render(
    title: str,
    sections: Sequence[Section],
    *,
    panel: Panel | None = None,
    notice: str = "",
    preface: str = "",
    afterword: str = "",
) -> str:
    """The page; `panel` says whether its disclaimer is a clinic's."""
    body = "".join(_section(s) for s in sections)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_CSS}</style></head><body><main>"
        f"<h1>{escape(title)}</h1><p class='notice'>{escape(disclaimer(panel))} {escape(notice)}</p>"
        f"{preface}{body}{afterword}</main></body></html>\n"
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _section(section: Section) -> str:
    a = section.answer
    parts = [f"<section><h2>{escape(section.heading)}</h2>"]
    if section.comment:
        parts.append(f"<p>{escape(section.comment)}</p>")
    parts.append(f"<blockquote>{escape(section.text)}</blockquote>")
    parts.append(_decision(a))
    parts.append(f"<figure>{svg.posterior_bars(a.posterior, a.provenance.prior, a.label)}")
    parts.append(
        f"<figcaption>Posterior over the panel; the tick is the prior. Entropy {a.entropy_bits:.2f} of "
        f"{math.log2(len(a.posterior)):.2f} bits, {a.effective_simulations:.1f} effective simulations"
        + (f", none of these {a.out_of_class:.2f}" if a.out_of_class is not None else "")
        + (f", typicality {a.typicality:.3f}" if a.typicality is not None else "")
        + ".</figcaption></figure>"
    )
    if a.second_order is not None:
        parts.append(_second_order(section))
    parts += [_alarm(a), _sentences(a), _change(a)]
    if a.evidence:
        rows = [
            (f"{e.distance:.3f}", "" if e.share is None else f"{e.share:.0%}", e.label, e.text)
            for e in a.evidence
        ]
        heading = "<h3>Simulated descriptions that carried the answer</h3>"
        parts.append(heading + table(("distance", "share", "label", "text"), rows))
    record = json.dumps(a.to_json()["provenance"], indent=1, ensure_ascii=False)
    parts.append(f"<details><summary>Provenance</summary><pre>{escape(record)}</pre></details></section>")
    return "".join(parts)


def _decision(a: Answer) -> str:
    """The action with its reasons: one as a sentence, several as a list."""
    action = escape(a.decision.action)
    reasons = a.decision.reasons or (a.decision.reason,)
    if len(reasons) == 1:
        return f"<p class='decision {action}'><b>{action}</b> {escape(reasons[0])}</p>"
    items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return f"<div class='decision {action}'><b>{action}</b><ul>{items}</ul></div>"


def _alarm(a: Answer) -> str:
    if a.alarm is None:
        return ""
    raised = "<b>Alarm:</b>" if a.alarm.flag else "No alarm:"
    said = f"{raised} {escape(a.alarm_words or '')}"
    rows = [(v.view, v.label, f"{v.probability:.2f}") for v in a.alarm.views]
    held = ""
    if a.conformal_set is not None:
        held = f"<p>Conformal set: {escape(', '.join(a.conformal_set) or 'empty')}.</p>"
    return (
        f"<h3>Independent views</h3><p>{said}. The score is {a.alarm.score:+.2f}; p is the share of "
        "correct answers to simulated texts with as little support.</p>"
        + table(("view", "prefers", f"gives '{a.label}'"), rows)
        + held
    )


def _sentences(a: Answer) -> str:
    if not a.sentences:
        return ""
    rows = [(f"{s.effect:+.3f}", s.text) for s in a.sentences]
    return (
        f"<h3>What the case owes to each part</h3><p>Probability that '{escape(a.label)}' loses when the "
        "part is left out; negative: it speaks for something else.</p>" + table(("effect", "part"), rows)
    )


def _change(a: Answer) -> str:
    """What would change the answer: a prior, a finding."""
    lines = []
    if a.flip is not None:
        lines.append(
            f"With a prior of '{a.label}' below {a.flip.prior:.3g} (the other labels in proportion) the "
            f"answer would be '{a.flip.label}'."
        )
    if a.missing_finding is not None:
        m = a.missing_finding
        lines.append(
            f"The finding most worth asking for is {m.facet}: {m.finding}. It would bring the entropy from "
            f"{m.entropy_bits:.2f} to an expected {m.expected_bits:.2f} bits."
        )
    if not lines:
        return ""
    return "<h3>What would change the answer</h3>" + "".join(f"<p>{escape(line)}</p>" for line in lines)


def _second_order(section: Section) -> str:
    a = section.answer
    second = a.second_order
    assert second is not None
    split = svg.uncertainty_split(second.aleatoric_bits, second.epistemic_bits, math.log2(len(a.posterior)))
    said = f"{escape(a.uncertainty_words or '')} Concentration α₀ {second.alpha0:.1f}."
    out = f"<figure>{split}<figcaption>{said}</figcaption></figure>"
    if section.simplex is not None and len(second.mean) == 3:
        picture = svg.ternary(section.simplex, list(second.mean), list(second.mean.values()))
        caption = "Draws from the simplex posterior and their mean."
        out += f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
    return out


# Blue and orange are told apart under every common colour vision; contrast is at least WCAG AA.
_CSS = """
:root{--ink:#1b1f24;--soft:#57606a;--paper:#fff;--line:#d0d7de;--track:#eef1f4;--lead:#0b62a8;--rest:#7fb0d8;
--warm:#b35900;--green:#1a6b35;--violet:#7a2e8e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--paper:#0f1419;--line:#30363d;
--track:#1c232b;--lead:#58a6ff;--rest:#2f5f8f;--warm:#f0a04b;--green:#5fc77f;--violet:#d59be6}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:860px;margin:0 auto;padding:1.5rem}
a{color:var(--lead)}h1{font-size:1.6rem}
h2{font-size:1.2rem;margin-top:2.2rem;border-top:1px solid var(--line);padding-top:1.2rem}
h3{font-size:1rem}.notice{color:var(--soft);border-left:4px solid var(--warm);padding-left:.8rem}
blockquote{margin:.8rem 0;padding:.6rem 1rem;background:var(--track);white-space:pre-wrap}
.decision b{text-transform:uppercase;letter-spacing:.04em;margin-right:.4rem}
.accept b{color:var(--green)}.test b{color:var(--warm)}.review b{color:var(--violet)}
figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.9rem}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:14px system-ui,sans-serif}
.name{text-anchor:end}.value,.key{font-variant-numeric:tabular-nums}.corner{text-anchor:middle}
.track{fill:var(--track)}.lead{fill:var(--lead)}.rest{fill:var(--rest)}.tick{stroke:var(--warm);stroke-width:2.5}
.aleatoric{fill:var(--lead)}.epistemic{fill:var(--warm)}.frame{fill:none;stroke:var(--soft)}
.draw{fill:var(--lead);opacity:.45}.mean{fill:var(--warm)}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;vertical-align:top;
padding:.35rem .5rem;border-bottom:1px solid var(--line)}td:first-child{font-variant-numeric:tabular-nums}
pre{white-space:pre-wrap;font-size:.8rem}@media print{details{display:none}}
"""
