"""A panel file to start from, with a comment where a clinician has something to decide."""

import json
import re
from collections.abc import Mapping

# Controls, further line breaks (YAML folds them into a blank), the byte order mark, and no characters at all.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scaffold(name: str, labels: Mapping[str, str], register: str = "clinician") -> str:
    """The text of a new panel file, from label names and what is known of each.

    JSON strings are valid YAML once what YAML cannot print is escaped.
    """

    def quoted(text: str) -> str:
        plain = json.dumps(text, ensure_ascii=False)
        return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)

    medical = register != "general"
    lines = [
        f"name: {quoted(name)}",
        'title: ""',
        "# The words the texts are written in: clinician | patient | case-report | plain, or",
        "# general for texts that are not about illness",
        f"register: {register}",
        "# wordllama is light and local; wordllama+minilm adds a sentence encoder of 88 MB",
        "embedder: wordllama",
        "labels:",
    ]
    for label, description in labels.items():
        lines += [
            f"  - name: {quoted(label)}",
            "    # every other name of it: removed from simulated texts, so that they cannot give it away",
            "    aliases: []",
            "    # one or two sentences on how it presents: the simulator is told this",
            f"    description: {quoted(description)}",
        ]
        if medical:  # no code of a disease belongs to a kind of text that is not about illness
            lines += ["    icd10: []", "    snomed: []"]
        lines += [
            "    # true asks for more tests when this label keeps 10 % without leading",
            "    must_not_miss: false",
        ]
    lines += [
        "# What a good set of descriptions should vary, beside the built-in facets; one of the same",
        "# name replaces its namesake",
        "# facets:",
        "#   site: [hand, foot]" if medical else "#   channel: [letter, telephone]",
        "",
    ]
    return "\n".join(lines)
