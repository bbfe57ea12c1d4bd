"""The prompts of a simulator; the wording of each register is in `data/wording.yaml`. Changing any of them
changes every content address.

Two voices. The full one gives the condition's name (not to be repeated), its features and every facet,
which a capable model can follow. The short one is for models of a few hundred million parameters, which
blurt out a name they were told to keep, imitate long instructions instead of following them, and wander:
it keeps the name back, asks for one thing, and puts the first words in the model's mouth: the label's first
finding and one of the others.

Texts that are not about illness may be of any kind. A general panel's own description says which, and is part
of every request.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from simdx.bank.scrub import all_names
from simdx.types import NONE_OF_THESE, Label, Panel


def packaged(name: str) -> str:
    return files("simdx.bank").joinpath("data", name).read_text(encoding="utf-8")


WORDING: Mapping[str, Mapping[str, Any]] = yaml.safe_load(packaged("wording.yaml"))  # by register


def wording_of(voice: str, panel: Panel) -> int:
    """The version of the prompts; a finished bank of another version is not extended."""
    return 2 if voice == "short" or not panel.is_clinical else 1


Wording = tuple[str, str]  # the prompt, and the words that the text begins with


# --------------------------------------------------------------------------- the full voice

_OF_A_KIND = "Write one text of this kind: {kind}."
_LENGTH_OF_A_KIND = "Make it as short or as long as such texts are, six sentences at most."
_SAY_NOT = "Do not name the disease; give no diagnosis, no heading, no list and no advice."
_SAY_NOT_GENERAL = "Do not name the subject; give no heading, no list and no advice."
_SAID = {
    "course": "The {shown} is {}.",
    "severity": "It is {}.",
    "duration": "It has been there {}.",
    "focus": "Say most about {}.",
    "initial": "Begin with a word that begins with {}.",
}
# Facets a sentence speaks of; a panel's own facets are listed as they are.
_SPOKEN = ("style", "who", "setting", "length", *_SAID)


def kind_of(panel: Panel) -> str:
    """What kind of texts a panel that is not about illness says it sorts; nothing where it does not say."""
    return "" if panel.is_clinical else panel.description.strip().rstrip(".")


def full_wording(panel: Panel, label: Label, facets: Mapping[str, str]) -> Wording:
    """The request for one description of a label, or of a condition outside the panel, for a model that can
    follow instructions."""
    register, kind, words = panel.register, kind_of(panel), WORDING[panel.register]
    general = register == "general"
    given = {**words["defaults"], **facets, "kind": kind}
    noun = "The subject" if general else "The condition behind it"
    sentences = [(_OF_A_KIND if kind else words["task"]).format(**given)]
    sentences.append(f"{noun}, which you must not name, is {label.name}.")
    if features := label.description.strip().rstrip("."):
        sentences.append(f"It means: {features}.")
    shown = {"shown": "example" if general else "presentation"}
    sentences += [said.format(facets[name], **shown) for name, said in _SAID.items() if name in facets]
    fitting = "subject" if general else "condition"
    sentences += [f"If it fits the {fitting}, {k}: {v}." for k, v in facets.items() if k not in _SPOKEN]
    sentences.append(_LENGTH_OF_A_KIND if kind else words["length"].format(**given))
    sentences.append(_SAY_NOT_GENERAL if general else _SAY_NOT)
    opening = _capital(facets["who"]) if register in ("clinician", "case-report") and "who" in facets else ""
    return " ".join(sentences), opening


# --------------------------------------------------------------------------- the short voice

LONGEST_FINDING, SHORTEST_FINDING = 16, 3  # words
_TIME = re.compile(
    r"\b(?:minute|hour|day|week|month|year|night|sudden|abrupt|gradual|chronic|persistent)", re.I
)


def short_wording(panel: Panel, label: Label, facets: Mapping[str, str]) -> Wording:
    """The same for a small model: the prompt leaves out the name if anything else is known."""
    register, kind = panel.register, kind_of(panel)
    asked = (
        f"{_OF_A_KIND.format(kind=kind)} It is about this: {{topic}}." if kind else WORDING[register]["short"]
    )
    prompt = asked.format(topic=_small(unnamed(label, register) or label.name))
    if "feature" in facets:
        values = {"duration": "lately", "who": "a patient", **facets}
        if _TIME.search(facets["feature"]):  # no second one beside it
            values["duration"] = "lately"
        values |= {"Who": _capital(values["who"]), "Duration": _capital(values["duration"])}
        return prompt, facets["opening"].format(**values)
    others = {"general": "", "patient": "I have"}
    return prompt, others.get(register, f"{_capital(facets.get('who', 'the patient'))} has")


def features_of(label: Label, register: str) -> tuple[str, ...]:
    """What one text may begin with: the first finding of the description, which is the cardinal one, and
    one of the others beside it. A text that is not about illness begins with what its writer says.
    """
    description = unnamed(label, register)
    if register == "general":
        return tuple(said for part in re.split(r"\.\s+", description) if (said := as_said(part)))
    first, *others = findings_of(description) or ("",)
    return tuple(f"{first}, {other}" for other in others) or ((first,) if first else ())


def findings_of(description: str) -> tuple[str, ...]:
    """A description cut at its stops, and long parts at their commas; no piece is a word or two alone."""
    clauses = [part for part in re.split(r"[:;()]|\.(?:\s|$)", description) if part.strip()]
    found: list[str] = []
    for clause in clauses:
        long = len(clause.split()) > LONGEST_FINDING or len(clauses) == 1
        held = ""
        for piece in re.split(r",\s*(?:and |or )?", clause) if long else [clause]:
            held = f"{held}, {piece}" if held else piece
            if len(held.split()) >= SHORTEST_FINDING:
                found.append(held)
                held = ""
        if held and found:
            found[-1] += f", {held}"
        elif held:
            found.append(held)
    return tuple(_small(" ".join(piece.split())) for piece in found)


def unnamed(label: Label, register: str) -> str:
    """The description without the label's names: what a small model is told, it says.

    What is not about illness has no other words than its own, and may be called by those of its description.
    """
    text = label.description.strip().rstrip(".")
    names = () if register == "general" else (label.name, *label.aliases)
    for name in sorted(names, key=len, reverse=True):
        words = r"[\s\-‐‑–_]+".join(map(re.escape, re.split(r"[\s\-‐‑–_]+", name.strip())))
        exact = name.isupper() and len(name) <= 5
        text = re.sub(rf"(?<!\w){words}(?:s|es)?(?!\w)", "it", text, flags=0 if exact else re.I)
    return text


_WRITER = re.compile(
    r"^(?:(?:the|a|an) (?:person|customer|user|caller|client|sender|writer|member|reader|guest|visitor|tenant"
    r"|employee|student|citizen|author)|somebody|someone) (?=[a-z]+s\b)",
    re.I,
)
_SENTENCE = re.compile(
    r"(?:the|a|an|my|there|it|something|nothing)\b.* "
    r"(?:is|are|was|were|has|have|had|must|cannot|will|does|did)\b",
    re.I,
)
_VERBS = {
    "has": "have", "is": "am", "does": "do", "wants": "want", "asks": "would like to ask", "says": "say",
    "needs": "need",
    "reports": "report", "complains": "complain", "requests": "request", "tries": "try", "wishes": "wish",
    "thinks": "think", "looks": "look", "would": "would", "cannot": "cannot", "wonders": "wonder",
}  # fmt: skip
_SPEAKERS = dict.fromkeys(("their", "his", "her"), "my") | dict.fromkeys(("they", "he", "she"), "I")
_SPEAKERS |= {"them": "me", "themselves": "myself"}


def as_said(sentence: str) -> str:
    """What somebody says whom this describes: "The person wants their money back" -> "I want my money back".

    A sentence about something else is said as it is; what is no sentence says nothing.
    """
    plain = sentence.strip().rstrip(".")
    found = _WRITER.match(plain)
    rest = "" if found is None else plain[found.end() :]
    if rest.partition(" ")[0] not in _VERBS:
        return plain if _SENTENCE.match(plain) else ""
    rest = re.sub(r"(^|\b(?:or|and) )([a-z]+)\b", lambda m: m[1] + _VERBS.get(m[2], m[2]), rest)
    said = "I " + re.sub(r"\b[a-z]+\b", lambda m: _SPEAKERS.get(m[0], m[0]), rest)
    return said.replace("I were ", "I was ").replace("I are ", "I am ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    """Without its capital, unless the first word is an abbreviation."""
    first = text.partition(" ")[0]
    return text if len(first) > 1 and first.isupper() else text[:1].lower() + text[1:]


# --------------------------------------------------------------------------- for a chat model
#
# One prompt to paste, which asks for many texts at once.

LEAST_BACKGROUND = 20
MOST_A_PROMPT = 100  # texts: about as many as a chat model writes in one reply
FIRST_LINE = "I test a program that sorts texts by label. Please invent texts for it."
LAST_LINE = "Answer with one line a text and nothing else: the label, a bar, the text. As here:"


def wanted(panel: Panel, per_label: int) -> dict[str, int]:
    """Texts that a bank shall have of each label, and of none of these."""
    others = max(LEAST_BACKGROUND, per_label * len(panel.names) // 5)
    return {**dict.fromkeys(panel.names, per_label), NONE_OF_THESE: others}


def prompts(panel: Panel, missing: Mapping[str, int]) -> list[str]:
    """The prompt to paste, or several if more texts are missing than fit into one reply."""
    groups: list[dict[str, int]] = [{}]
    for topic, n in missing.items():
        while n > 0:
            room = MOST_A_PROMPT - sum(groups[-1].values())
            if room < min(n, MOST_A_PROMPT // 4):
                groups.append({})
                continue
            groups[-1][topic] = min(n, room)
            n -= min(n, room)
    return [_prompt(panel, group) for group in groups if group]


def _prompt(panel: Panel, group: Mapping[str, int]) -> str:
    kind, something = kind_of(panel), "condition" if panel.is_clinical else "subject"
    lines = [FIRST_LINE, "", "The labels:"]
    lines += [f"- {x.name}" + (f": {x.description.strip()}" if x.description else "") for x in panel.labels]
    lines += ["", "Write these texts, every one different:"]
    lines += [f'- {n} for "{topic}"' for topic, n in group.items() if topic != NONE_OF_THESE]
    if n := group.get(NONE_OF_THESE):
        asked = f" Among them: {', '.join(panel.ask_about)}." if panel.ask_about else ""
        lines.append(
            f'- {n} for "{NONE_OF_THESE}": each about a different {something} that is not on the list and '
            f"could be mistaken for a label of it. Name the {something} in brackets behind the label.{asked}"
        )
    lines += [
        "",
        f"Each text is {f'of this kind: {kind}' if kind else WORDING[panel.register]['kind']}.",
        "Vary the person, the words, the length, how it began, how long it has lasted and which details are "
        "told. Half of the texts are typical, a quarter tell little, a quarter are easily mistaken for "
        "another label of the list.",
        f"No text contains any of these words: {', '.join(dict.fromkeys(all_names(panel)))}. No text says "
        f"what the {something} is called, gives advice or explains itself.",
        "",
        LAST_LINE,
    ]
    shown = [f"{topic} (its name)" if topic == NONE_OF_THESE else topic for topic in group]
    lines += [f"{topic} | …" for topic in shown[:1] + shown[1:][-1:]]
    return "\n".join(lines) + "\n"
