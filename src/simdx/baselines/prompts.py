"""What a language model is asked about a case.

Every prompt begins with the case and the list of options and ends with the instruction. So the eight
paraphrases, the repeats and the elicitation share a long beginning, which a server has to read once; only
the permuted option lists of `logits` part earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdx.errors import BadInput

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
VERSION = "1"  # raise it when the meaning of a stored reading changes

CHOOSE = "Which of the diagnoses above fits this case best? Reply with its letter only."

# Persona, phrasing and output constraint vary; the question does not.
PARAPHRASES = (
    CHOOSE,
    "You are the clinician in charge of this patient. Choose the single most likely diagnosis from the list "
    "and give nothing but its letter.",
    "As a specialist asked for a second opinion, decide which listed diagnosis explains these findings. "
    "Output one letter.",
    "Weigh every option against the description, then commit to one. Write only the letter of your choice.",
    "This is a question from an examination for medical students. Mark the correct option by its letter.",
    "If you had to bet on one diagnosis from the list, which would it be? One letter, no explanation.",
    "Note for the file: record the letter of the most probable diagnosis. Do not add any other word.",
    "One diagnosis on the list was later confirmed. Say which one, using its letter alone.",
)


def elicit(guesses: int) -> str:
    return (
        f"Give your {guesses} best guesses and, for each, the probability between 0 and 1 that it is the "
        "correct diagnosis. Write one guess on each line as LETTER: PROBABILITY with two decimals, the most "
        "likely guess first, no letter twice, and nothing else."
    )


def multiple_choice(text: str, options: Sequence[str], instruction: str) -> str:
    return f"{case_part(text)}{options_part(options)}\n{instruction}"


def case_part(text: str) -> str:
    return f"Case description:\n{text.strip()}\n\n"


def options_part(options: Sequence[str]) -> str:
    if len(options) > len(LETTERS):
        raise BadInput(
            f"asking a language model works for at most {len(LETTERS)} labels, the panel has {len(options)}"
        )
    return "Possible diagnoses:\n" + "".join(
        f"{letter}. {option}\n" for letter, option in zip(LETTERS, options, strict=False)
    )


# --------------------------------------------------------------------------- grammars (GBNF)


def letter_grammar(n_options: int) -> str:
    return "root ::= " + " | ".join(f'"{letter}"' for letter in LETTERS[:n_options])


def guesses_grammar(n_options: int, guesses: int) -> str:
    """Lines `LETTER: PROBABILITY` in which no letter comes twice: one rule per letters already used."""
    rules = ['p ::= "0." [0-9] [0-9] | "1.00"']

    def rule(used: str) -> str:
        name = "root" if not used else "after-" + used.lower()
        branches = []
        for letter in LETTERS[:n_options]:
            if letter in used:
                continue
            rest = f' "\\n" {rule(used + letter)}' if len(used) + 1 < guesses else ""
            branches.append(f'"{letter}: " p{rest}')
        rules.append(f"{name} ::= " + " | ".join(branches))
        return name

    rule("")
    return "\n".join(rules)
