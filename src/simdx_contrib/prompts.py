"""The prompts under which a case is scored: three per label, two that say nothing of a label.

A model that writes descriptions of a label from a prompt also says how probable any text is after that
prompt. No wording is right for every case, so a label has a small mixture: the task, the same task in other
words, and the first with the label's description. The neutral prompts are the first two without the label;
what a text owes to its register alone is as probable under them. The words were fixed before any case was
scored.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdx.types import Label, Panel, content_hash

PROMPTS_PER_LABEL = 3

# Register -> the task in two wordings. `general` speaks of the panel's own kind of text.
_TASKS = {
    "patient": (
        "Write two or three sentences in the first person, in which a patient tells a doctor what is wrong.",
        "A patient sits down in the surgery and says in everyday words what troubles them. "
        "Write what is said.",
    ),
    "clinician": (
        "Write a short clinical note about one patient: the complaint, the history and the examination.",
        "A doctor describes a patient to a colleague in one paragraph, with history and findings. Write it.",
    ),
    "case-report": (
        "Write the case description of a published case report: presentation, history, tests, treatment, "
        "outcome.",
        "Continue a medical journal: one patient's story, from the first complaint to how it ended.",
    ),
    "plain": (
        "Describe in a few plain sentences what a person complains of.",
        "Somebody notes down, simply and briefly, what a person suffers from. Write the note.",
    ),
    "general": (
        "Write one text of this kind: {kind}",
        "Give a single realistic example of the following. {kind}",
    ),
}
_KIND = "A short text of one paragraph."
_TOPIC = {
    "clinical": (
        "The condition behind it, which must not be named, is {name}.",
        "What the patient has is {name}; the words do not appear.",
    ),
    "general": ("It is about: {name}.", "Its subject is {name}."),
}


@dataclass(frozen=True, slots=True)
class ScoringPrompts:
    """Every prompt of a panel: (K, 3) with a label, and the neutral ones."""

    of_labels: tuple[tuple[str, ...], ...]
    neutral: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Label by label, the neutral ones last."""
        return (*(prompt for prompts in self.of_labels for prompt in prompts), *self.neutral)

    @property
    def hash(self) -> str:
        return content_hash("scoring prompts", *self.all)


def scoring_prompts(panel: Panel) -> ScoringPrompts:
    kind = panel.description.strip() or _KIND
    tasks = [task.format(kind=kind) for task in _TASKS[panel.register]]
    topics = _TOPIC["clinical" if panel.is_clinical else "general"]
    return ScoringPrompts(tuple(_of_label(label, tasks, topics) for label in panel.labels), tuple(tasks))


def _of_label(label: Label, tasks: list[str], topics: tuple[str, ...]) -> tuple[str, ...]:
    name = label.name.replace("_", " ")
    first, second = (f"{task} {topic.format(name=name)}" for task, topic in zip(tasks, topics, strict=True))
    described = label.description.strip()
    # Without a description the first wording counts twice, so that every label has as many prompts.
    return first, second, f"{first} It means: {described}" if described else first
