"""A bank from any chat model: a prompt to paste, and replies that add up to a bank.

The prompt holds names and descriptions of the labels and no case text. Every text that is read from a reply
is kept in `replies.jsonl`; which of them make up the bank is decided anew on each import, by the checks that
a built bank passes. So the same reply twice changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from simdx.bank import files
from simdx.bank.prompts import WORDING, kind_of
from simdx.bank.reply import FIRST_LINE, LAST_LINE, ReplyText, read_reply
from simdx.bank.scrub import Duplicates, Scrubber, all_names, names_one_of
from simdx.disk import make_folder
from simdx.errors import BadInput, RunFailed
from simdx.rows import jsonl_rows
from simdx.simulators.base import Request, Simulator, ask_all
from simdx.types import NONE_OF_THESE, Panel

STORE = "replies.jsonl"
PER_LABEL = 25
LEAST_BACKGROUND = 20
MOST_A_PROMPT = 100  # texts: about as many as a chat model writes in one reply
SHORTEST = 4  # words: the prompt asks that a quarter of the texts tell little
ROUNDS = 4  # of questions to a server, after which what is missing is told


# --------------------------------------------------------------------------- the prompt


def wanted(panel: Panel, per_label: int) -> dict[str, int]:
    """Texts that a bank shall have of each label, and of none of these."""
    others = max(LEAST_BACKGROUND, per_label * len(panel.names) // 5)
    return {**dict.fromkeys(panel.names, per_label), NONE_OF_THESE: others}


def prompts(panel: Panel, missing: Mapping[str, int]) -> list[str]:
    """What to paste: one prompt, or several where more texts are missing than fit into one reply."""
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


@dataclass(frozen=True, slots=True)
class Gathered:
    """All replies so far, judged: the texts that make up the bank, and why others do not."""

    texts: Mapping[str, Sequence[str]]
    background: Sequence[tuple[str, str]]  # (condition, text)
    rejected: Mapping[str, int]
    missing: Mapping[str, int]
    unknown: Mapping[str, int] = field(default_factory=dict)  # of the last reply

    @property
    def usable(self) -> bool:
        """Has every label the two texts that the least bank needs?"""
        return min(map(len, self.texts.values())) > 1


def judge(rows: Sequence[ReplyText], panel: Panel, per_label: int) -> Gathered:
    texts: dict[str, list[str]] = {name: [] for name in panel.names}
    background: list[tuple[str, str]] = []
    rejected: Counter[str] = Counter()
    scrubber = cache(lambda topic: Scrubber.for_topic(panel, topic, SHORTEST))
    seen, names = Duplicates(), all_names(panel)
    for label, condition, text in rows:
        reason = scrubber(label or condition).reason(text)
        if label is None and condition and names_one_of(names, condition):
            reason = "its condition is a label"
        if reason is None and seen.seen(text):
            reason = "near-duplicate"
        if reason is not None:
            rejected[reason] += 1
        elif label is None:
            background.append((condition, text))
        else:
            texts[label].append(text)
    have = {**{name: len(found) for name, found in texts.items()}, NONE_OF_THESE: len(background)}
    missing = {topic: n - have[topic] for topic, n in wanted(panel, per_label).items() if n > have[topic]}
    return Gathered(texts, background, dict(rejected.most_common()), missing)


def gather(panel: Panel, replies: Sequence[str], folder: Path, per_label: int) -> Gathered:
    """Add replies to the folder, and write the bank anew once every label has texts."""
    if folder.exists() and not (folder / STORE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is not a folder of replies: choose a new folder with --out")
    stored = [
        ReplyText(row.get("label"), str(row.get("condition") or ""), str(row.get("text")))
        for _, row in (jsonl_rows(folder / STORE) if (folder / STORE).is_file() else ())
        if row.get("label") is None or row["label"] in panel.names
    ]
    read = [read_reply(reply, panel) for reply in replies]
    if replies and not any(rows for rows, _ in read):
        raise BadInput(
            "no text of a label was found in the reply: each needs its label before it, as 'LABEL | text'"
        )
    every = list(dict.fromkeys([*stored, *(row for rows, _ in read for row in rows)]))
    found = judge(every, panel, per_label)
    make_folder(folder)
    files.write_jsonl(folder / STORE, (row._asdict() for row in every))
    if found.usable:
        texts = [{"label": name, "text": text} for name, some in found.texts.items() for text in some]
        others = [{"condition": name or "unnamed", "text": text} for name, text in found.background]
        made = {"simulator": "chat", "answers": len(every)}
        files.write_rows(folder, panel, texts, others, found.rejected, made)
    return replace(found, unknown=sum((Counter(u) for _, u in read), Counter[str]()))


def ask_server(panel: Panel, simulator: Simulator, folder: Path, per_label: int) -> Gathered:
    """The same prompts, answered by a server instead of by hand."""
    found = gather(panel, (), folder, per_label)
    for _ in range(ROUNDS):
        if not (asked := prompts(panel, found.missing)):
            break
        answers = ask_all(simulator, [Request(p, max_tokens=100 * MOST_A_PROMPT) for p in asked])
        replies = [answer.text for answer in answers if answer.ok and read_reply(answer.text, panel)[0]]
        if not replies:
            error = next((a.error for a in answers if a.error), "no text of a label was in the reply")
            raise RunFailed(f"{simulator.id} wrote nothing that can be used: {error}")
        found = gather(panel, replies, folder, per_label)
    return found
