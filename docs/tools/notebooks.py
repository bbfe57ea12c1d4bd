"""Notebooks as pages: their words and their code. Outputs are not kept; the tests run every cell."""

from __future__ import annotations

import json
from pathlib import Path


def as_markdown(path: Path) -> str:
    """The notebook's cells in order, with a link to the file itself."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"]).strip()
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    title, *rest = parts
    note = f"*A notebook that runs in the tests: [download it]({path.name}).*"
    return "\n\n".join([title, note, *rest]) + "\n"
