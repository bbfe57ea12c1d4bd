"""howto/decisions-api.md: its Python blocks run in order against a service, its table is the record's."""

import json
import re
from pathlib import Path

from tests.docs.test_committed import short, table_rows
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


def test_the_table_of_an_upstream_is_the_record() -> None:
    rows = table_rows(PAGE.read_text("utf-8"), "Ask or calibrate another server")
    record = PAGE.parents[2] / "results" / "upstream" / "record.json"
    (found,) = json.loads(record.read_text("utf-8")).values()
    columns = ("ece_labels", "accuracy_labels", "ece_all", "accuracy_all", "outside_auroc")
    for row, of in zip(rows, found, strict=True):
        values = [f"{short(of[f'{c}_before'])}→{short(of[f'{c}_after'])}" for c in columns]
        assert row == [of["panel"], str(of["labelled"]), *values]
