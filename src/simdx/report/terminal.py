"""An answer in the terminal: bars, bits, the decision, and what carried it."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from simdx.answer import Answer

_EIGHTHS = " ▏▎▍▌▋▊▉"
_COLOUR = {"accept": "green", "test": "yellow", "review": "magenta"}


def bar(share: float, width: int = 32) -> str:
    """A horizontal bar of block characters for a share in [0, 1]."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def print_answer(answer: Answer, console: Console, *, evidence: int = 4) -> None:
    """Everything a reader needs to weigh one answer, in about twenty lines."""
    width = max(len(label) for label in answer.posterior)
    for label, p in sorted(answer.posterior.items(), key=lambda item: -item[1]):
        line = Text(f"  {label:<{width}}  ")
        line.append(bar(p), style="bold cyan" if label == answer.label else "cyan")
        line.append(f" {p:6.3f}")
        console.print(line)
    most = math.log2(len(answer.posterior))
    console.print(
        f"  entropy {answer.entropy_bits:.2f} of {most:.2f} bits; "
        f"{answer.effective_simulations:.1f} effective simulations"
    )
    second = answer.second_order
    if second is not None:
        console.print(
            f"  simplex: total {second.total_bits:.2f} = aleatoric {second.aleatoric_bits:.2f} "
            f"+ epistemic {second.epistemic_bits:.3f} bits, α₀ {second.alpha0:.1f}"
            + (f", top probability capped at {second.cap:.2f}" if second.cap is not None else "")
        )
    for voice, posterior in (answer.voices or {}).items():
        heard = max(posterior, key=lambda label: posterior[label])
        console.print(f"  voice '{voice}': {escape(heard)} {posterior[heard]:.2f}")
    parts = []
    if answer.out_of_class is not None:
        parts.append(f"none of these {answer.out_of_class:.2f}")
    if answer.typicality is not None:
        parts.append(f"typicality {answer.typicality:.3f}")
    if parts:
        console.print("  " + "; ".join(parts))
    colour = _COLOUR.get(answer.decision.action, "white")
    for i, reason in enumerate(answer.decision.reasons or (answer.decision.reason,)):
        action = answer.decision.action.upper() + ":" if i == 0 else " " * (len(answer.decision.action) + 1)
        console.print(f"  [bold {colour}]{action}[/] {escape(reason)}")
    if answer.calibration is not None:
        console.print(f"  {escape(answer.calibration.sentence)}")
    _print_doubts(answer, console)
    for note in answer.provenance.notes:
        console.print(f"  note: {escape(note)}")
    if answer.evidence[:evidence]:
        shares = any(item.share is not None for item in answer.evidence)
        console.print(f"  nearest simulations (distance{', share of the answer' if shares else ''}):")
    for item in answer.evidence[:evidence]:
        carried = "" if item.share is None else f"  {item.share:4.0%}"
        console.print(
            f"  [dim]{item.distance:.3f}{carried}  {escape(item.label)}: {escape(_short(item.text))}[/]"
        )


def _print_doubts(answer: Answer, console: Console, sentences: int = 3) -> None:
    """The alarm, the set that holds the truth, what carried the answer and what would change it."""
    alarm = answer.alarm
    if alarm is not None:
        raised = "[bold magenta]alarm[/]" if alarm.flag else "no alarm"
        console.print(f"  {raised}: {escape(answer.alarm_words or '')}")
    if answer.conformal_set is not None:
        console.print(f"  conformal set: {escape(', '.join(answer.conformal_set) or 'empty')}")
    if answer.sentences:
        console.print(f"  what '{escape(answer.label)}' would lose without each part of the text:")
    for part in (answer.sentences or ())[:sentences]:
        console.print(f"  {part.effect:+.2f}  “{escape(_short(part.text, 110))}”")
    if answer.flip is not None:
        console.print(
            f"  would become '{escape(answer.flip.label)}' if '{escape(answer.label)}' had a prior below "
            f"{_probability(answer.flip.prior)}"
        )
    missing = answer.missing_finding
    if missing is not None:
        console.print(
            f"  ask about {escape(missing.facet)}: {escape(_short(missing.finding, 80))} (entropy now "
            f"{missing.entropy_bits:.2f}, expected {missing.expected_bits:.2f} bits)"
        )


def _probability(p: float) -> str:
    return f"{p:.2f}" if 0.005 <= p <= 0.995 else f"{p:.1e}" if p < 0.5 else "0.99"


def _short(text: str, limit: int = 150) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rsplit(" ", 1)[0] + " …"
