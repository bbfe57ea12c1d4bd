"""An answer in the terminal: about a dozen lines of 80 columns, and the rest on request.

Quoted texts are cut to a line. What the answer itself says is wrapped, never cut.
"""

import math
import re

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.text import Text

from simdx.answer import NO_PROMISE, Answer, SentenceEffect, action_words, percent
from simdx.errors import plain
from simdx.types import NONE_OF_THESE

_EIGHTHS = " ▏▎▍▌▋▊▉"
_COLOUR = {"accept": "green", "likely": "blue", "test": "yellow", "review": "magenta"}
SHOWN = 3  # labels with a bar of their own; the others share one
MATTERS = 0.005  # least effect shown: less rounds to 0 %


def bar(share: float, width: int = 32) -> str:
    """A horizontal bar of block characters for a share in [0, 1]."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def print_answer(answer: Answer, console: Console, *, verbose: bool = False, text: str = "") -> None:
    """The labels, the decision with reasons, the evidence, and the basis of the calibration.

    With the `text` denied findings are shown, struck through.
    """
    _print_bars(answer, console, most=None if verbose else SHOWN)
    _print_decision(answer, console, reasons=None if verbose else 1)
    _print_beyond(answer, console, text, whole=verbose)
    if verbose:
        _print_rest(answer, console, text)
    else:
        _print_sentences(answer, console, text)
        _print_nearest(answer, console)
    found = answer.calibration
    rests = "calibration unknown" if found is None else found.sentence
    who = answer.panel if answer.method == "auto" else f"{answer.panel}, {answer.method}"
    _wrapped(console, f"{who}: {rests}", style="dim")


def _print_bars(answer: Answer, console: Console, most: int | None) -> None:
    """One bar a label by falling probability, none of these the last."""
    shown = dict(answer.posterior)
    outside = shown.pop(NONE_OF_THESE, None)
    ranked = sorted(shown.items(), key=lambda item: -item[1])
    if most is not None and len(ranked) > most + 1:
        others = ranked[most:]
        ranked = [*ranked[:most], (f"{len(others)} other labels", sum(p for _, p in others))]
    if outside is not None:
        ranked.append((NONE_OF_THESE, outside))
    width = min(max(len(label) for label, _ in ranked), console.width // 2)
    for label, p in ranked:
        line = Text(f"{_short(label, width):<{width}}  ")
        drawn = bar(p, max(8, min(32, console.width - width - 12)))
        line.append(drawn, style="bold cyan" if label == answer.label else "cyan")
        line.append(f" {percent(p):>9}")
        console.print(line, no_wrap=True)


def _print_decision(answer: Answer, console: Console, reasons: int | None) -> None:
    decision = answer.decision
    given = decision.reasons or (decision.reason,)
    promised = decision.action != "accept" or decision.promise is not None
    colour = _COLOUR[decision.action] if promised else "blue"  # green promises something
    said = action_words(decision.action, answer.clinical)
    if decision.action == "accept":
        said += f" ({decision.promise or NO_PROMISE})"
    for i, reason in enumerate(given[:reasons]):
        hidden = len(given) - 1 if reasons == 1 and i == 0 else 0
        more = f" [dim](and {hidden} more reason{'s' * (hidden > 1)})[/]" if hidden else ""
        head = f"[bold {colour}]{said}:[/] " if i == 0 else "  also: "
        if reasons == 1:  # red flags follow below
            reason = reason.removesuffix(f" ({'; '.join(flag.words for flag in answer.red_flags)})")
        console.print(head + escape(_flat(reason)) + more)


def _print_beyond(answer: Answer, console: Console, text: str, whole: bool) -> None:
    """Likely conditions outside the panel, unexplained sentences, and findings read as denied.

    Red flags are never cut off.
    """
    if (said := answer.outside_words) is not None:
        _wrapped(console, said, lead="  ", style="bold")
    for sentence in answer.unexplained if whole else answer.unexplained[:2]:
        said = sentence if whole else _short(sentence, console.width - 23)
        console.print(f"  not explained: “{escape(said)}”")
        for flag in answer.red_flags:
            if flag.sentence == sentence:
                _wrapped(console, flag.words, lead="    ")
    denied = [text[span.start : span.end] for span in answer.spans if span.assertion == "negated"]
    if text and denied:
        console.print("  denied: " + ", ".join(f"[strike]{escape(_short(one, 30))}[/]" for one in denied[:6]))


def _part(part: SentenceEffect, answer: Answer, text: str, lead: str, room: int) -> Text:
    """A quoted part of the case; denied findings, which support nothing, are struck through."""
    said = Text()
    for piece, denied in answer.quoted(text, part.text):
        said.append(re.sub(r"\s+", " ", plain(piece)), style="strike" if denied else "")
    said.truncate(room, overflow="ellipsis")
    return Text(f"{lead}“").append_text(said).append("”")


def _print_sentences(answer: Answer, console: Console, text: str) -> None:
    parts = [part for part in answer.sentences or () if abs(part.effect) >= MATTERS][:2]
    if answer.sentences and not parts:
        _wrapped(console, f"no single sentence changes '{answer.label}' by 1 %", lead="  ")
    for part in parts:
        effect = f"{'+' if part.effect > 0 else '−'}{abs(100 * part.effect):.0f} %"
        lead = f"  {effect:>6}  "
        console.print(_part(part, answer, text, lead, console.width - len(lead) - 2), no_wrap=True)


def _print_nearest(answer: Answer, console: Console) -> None:
    """The nearest simulation of each of the top two labels."""
    seen: set[str] = set()
    for item in answer.evidence:
        if item.label not in seen and len(seen) < 2:
            seen.add(item.label)
            _line(console, f"like {item.label}: “{item.text}”", lead="  ", style="dim")


def _print_rest(answer: Answer, console: Console, text: str) -> None:
    most = math.log2(len(answer.posterior))
    console.print(f"  entropy {answer.entropy_bits:.2f} of {most:.2f} bits (0: certain)")
    if answer.effective_simulations is not None:
        carried = f"{answer.effective_simulations:.1f} simulated texts carry the answer"
        console.print(f"  {carried} (effective simulations)")
    if answer.typicality is not None:
        alike = f"{percent(answer.typicality)} of simulated texts are at least as unusual as this one"
        console.print(f"  {alike} (typicality)")
    for voice, posterior in (answer.voices or {}).items():
        heard = max(posterior, key=lambda label: posterior[label])
        console.print(f"  voice '{escape(voice)}': {escape(heard)} {percent(posterior[heard])}")
    if answer.uncertainty_words is not None:
        console.print(f"  {escape(answer.uncertainty_words)}")
    if answer.alarm is not None and not (answer.alarm.flag and answer.alarm_words in answer.decision.reasons):
        raised = "[bold magenta]alarm[/]" if answer.alarm.flag else "no alarm"
        console.print(f"  {raised}: {escape(answer.alarm_words or '')}")
    if answer.conformal_set is not None:
        console.print(
            f"  labels that cannot be ruled out: {escape(', '.join(answer.conformal_set) or 'empty')}"
        )
    if answer.sentences:
        console.print(f"  contribution of each part of the text to '{escape(answer.label)}':")
    for part in answer.sentences or ():
        console.print(_part(part, answer, text, f"  {100 * part.effect:+.1f} %  ", 110))
    if answer.flip is not None:
        p = answer.flip.prior
        below = f"{p:.2f}" if 0.005 <= p <= 0.995 else f"{p:.1e}" if p < 0.5 else "0.99"
        became = f"  would become '{escape(answer.flip.label)}'"
        console.print(f"{became} if '{escape(answer.label)}' had a prior below {below}")
    for note in answer.provenance.notes:
        _wrapped(console, f"note: {note}", lead="  ")
    if answer.evidence:
        shares = any(item.share is not None for item in answer.evidence)
        console.print(f"  nearest simulations (distance{', share of the answer' if shares else ''}):")
    for item in answer.evidence:
        carry = "" if item.share is None else f"  {item.share:4.0%}"
        console.print(
            f"  [dim]{item.distance:.3f}{carry}  {escape(item.label)}: {escape(_short(item.text))}[/]"
        )


def print_question(answer: Answer, console: Console) -> None:
    """The finding most worth asking for, where one was looked for."""
    missing = answer.missing_finding
    if missing is None:
        console.print("  no further question is expected to change this answer")
        return
    console.print(
        f"  worth asking: “{escape(missing.finding)}” [dim](points to {escape(missing.speaks_for)}; entropy "
        f"{missing.entropy_bits:.2f} to an expected {missing.expected_bits:.2f} bits)[/]"
    )


def _line(console: Console, text: str, lead: str = "", style: str = "") -> None:
    """One line of the terminal, whatever its width."""
    console.print(Text(lead + _short(text, console.width - len(lead)), style=style), no_wrap=True)


def _wrapped(console: Console, text: str, lead: str = "", style: str = "") -> None:
    """As many lines as it takes, each after the lead."""
    for line in Text(_flat(text), style=style).wrap(console, console.width - len(lead)):
        line.rstrip()
        console.print(Text(lead).append_text(line), no_wrap=True)


def escape(text: str) -> str:
    """Words of a case or a label as they may be printed: no markup of rich's, no control of the terminal."""
    return escape_markup(plain(text))


def _flat(text: str) -> str:
    return " ".join(plain(text).split())


def _short(text: str, limit: int = 150) -> str:
    flat = _flat(text)
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
