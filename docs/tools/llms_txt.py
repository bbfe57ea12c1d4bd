"""`llms.txt` at the site's root: what the project is and where each page is, for programs that read."""

from __future__ import annotations

import re
from collections.abc import Iterable

HEAD = """# simdx

> Calibrated, uncertainty-aware text classification with language models as simulators, for clinical text.
> A language model writes descriptions of each label of a closed panel; approximate Bayesian computation
> compares a case with them and gives a posterior, its uncertainty and a decision. Decision support for
> research, not a medical device. Python 3.11+, Apache-2.0, runs on one machine without a network.

Front doors: `simdx classify TEXT --panel NAME --json` on the command line,
`simdx.Classifier(panel).infer(text)` in Python, `POST /v1/classify` over HTTP (`simdx serve`). Exit code 2
means bad input.
"""


_NOT_PROSE = ("#", "|", "```", ">", "-", "* ", "!", "<", ":::", "    ")


def first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph of prose, without its marks."""
    markdown = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    for block in re.split(r"\n\s*\n", markdown):
        if block.strip("\n") and not block.lstrip("\n").startswith(_NOT_PROSE):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=[.?]) ", plain.replace("*", "").replace("`", ""))[0].rstrip(":")
    return ""


def render(pages: Iterable[tuple[str, str, str, str]]) -> str:
    """The file, from (section, title, address, Markdown) of every page of the navigation."""
    lines, section = [HEAD], None
    for group, title, address, markdown in pages:
        if group != section:
            section = group
            lines.append(f"## {group}\n")
        said = first_sentence(markdown)
        lines.append(f"- [{title}]({address})" + (f": {said}" if said else ""))
    return re.sub(r"\n(## )", r"\n\n\1", "\n".join(lines)) + "\n"
