"""The Python blocks of howto/decisions-api.md, run in order against a service on loopback."""

import re
from pathlib import Path

from tests.service.conftest import Live, create_app, make_config

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "decisions-api.md"


def test_the_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(
        r"<!-- runs: ask -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(blocks) == 2
    with Live(create_app(make_config(tmp_path))) as live:
        known: dict[str, object] = {"address": live.url}
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), known)
