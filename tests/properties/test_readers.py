"""Every file that a stranger may have written or touched: read or refused in one line, and nothing else.

`READERS` name each with a good document. Each reader gets any bytes, any tree, and its own document with one
value exchanged for any tree, sealed anew where there is a seal. What a bank, cases, a panel and a policy must
hold once they are read is said in fuzz/targets.py.
"""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fuzz.targets import TARGETS
from simdx.amortised.network import NETWORK_FILE, load, save
from simdx.bank.exchange import export_bank, merge_banks
from simdx.bank.files import problems_of as problems_of_bank
from simdx.bank.files import read_bank, read_manifest, write_bank
from simdx.datasets import read_cases
from simdx.datasets.named import read_rule
from simdx.decide.policy import read_policy
from simdx.disk import load_described, save_arrays
from simdx.errors import BadInput, SimdxError
from simdx.panels import load_panel, load_source, problems_of
from simdx.panels.load import parse_panel, scaffold
from simdx.review import import_scores, make_review, open_review, read_scores
from simdx.runs import Store
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import AuditKey
from simdx.service.auth import TokenFile
from simdx.types import Bank, Label, Panel
from tests.faults.world import toy_network
from tests.properties.strategies import accepted, bounded, broken_texts, few, filled_texts, texts, trees

PANEL = Panel("toy", (Label("a"), Label("b")))
POLICY = yaml.safe_load((load_source("oral-lesions").folder / "policy.yaml").read_text("utf-8"))
TOKEN = {"id": "ab", "name": "n", "scopes": ["classify"], "sha256": "0" * 64,
         "created": "2026-01-01T00:00:00Z", "expires": None, "revoked": None, "panels": None}  # fmt: skip


def a_manifest(path: Path) -> None:
    if not (path.parent / "bank.jsonl").exists():
        content = path.read_bytes()
        write_bank(path.parent, Bank("toy", PANEL.names, ("x", "y"), np.arange(2), name="toy"), PANEL)
        path.write_bytes(content)
    for read in (read_manifest, lambda folder: list(problems_of_bank(folder)), read_bank):
        accepted(lambda read=read: read(path.parent, *([PANEL] if read is read_bank else [])))


def a_token(path: Path) -> None:
    """Whatever a file says of a token, a caller who sends other words than the token's is nobody."""
    accepted(TokenFile(path).list)
    assert accepted(lambda: TokenFile(path).check("sdx_ab_x")) is None


def a_record(path: Path) -> None:
    found = Store(path.parent.parent).read(path.stem)
    assert found is None or found.status in ("done", "failed", "not run")


def a_review(path: Path) -> None:
    sheet = accepted(lambda: open_review(path.parent))
    if sheet is not None and sheet.folder == path.parent:
        accepted(lambda: import_scores(sheet, path, role="reader"))


def fuzzed(target: str, first: bytes = b"") -> Callable[[Path], None]:
    """A target of the fuzzer, which writes and reads a file of its own; the first byte chooses its kind."""
    return lambda path: TARGETS[target](path.parent)(first + path.read_bytes())


@dataclass(frozen=True)
class Reader:
    name: str  # of the file
    read: Callable[[Path], Any]
    good: dict[str, Any]


ROW = {"label": "a", "text": "x", "id": "1"}
READERS = {
    "bank": Reader("b.jsonl", fuzzed("bank_jsonl"), ROW),
    "manifest": Reader("manifest.json", a_manifest, {"format": 1, "panel": "toy", "texts": {"a": 1}}),
    "cases": Reader("c.jsonl", fuzzed("cases", b"\0"), ROW),
    "panel": Reader("p.yaml", fuzzed("panel_yaml"), {
        "name": "n", "labels": ["a", {"name": "b", "aliases": ["c"]}], "title": "t", "register": "plain",
        "facets": {"sex": ["f", "m"]},
    }),
    "policy": Reader("policy.yaml", fuzzed("policy"), POLICY),
    "tokens": Reader("tokens.json", a_token, {"format": 1, "tokens": [TOKEN]}),
    "audit key": Reader("key", lambda path: accepted(lambda: AuditKey.from_file(path)), {}),
    "record": Reader("cells/c.json", a_record, {"format": 1, "status": "done", "x": 1}),
    "scores": Reader("s.jsonl", lambda path: accepted(lambda: read_scores(path)), {"reviewer": "anna"}),
    "review": Reader("review.json", a_review, {"review": "r", "reviewers": ["anna"], "items": []}),
    "rule": Reader("rule.yaml", lambda path: accepted(lambda: read_rule(path)), {}),
    "network": Reader(NETWORK_FILE, lambda path: accepted(lambda: load(path.parent)), {}),
}  # fmt: skip


def given_to(reader: Reader, folder: Path, content: bytes) -> None:
    path = folder / reader.name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    reader.read(path)


@pytest.mark.parametrize("kind", READERS)
@few
@given(data=st.binary(max_size=300), tree=trees)
def test_any_bytes_and_any_tree(tmp_path: Path, kind: str, data: bytes, tree: object) -> None:
    for content in (data, json.dumps(tree).encode(), yaml.safe_dump(tree, allow_unicode=True).encode()):
        given_to(READERS[kind], tmp_path, content)
    accepted(lambda: parse_panel(tree, "p.yaml"))


@pytest.mark.parametrize("kind", [kind for kind, reader in READERS.items() if reader.good])
@bounded
@given(tree=trees, data=st.data())
def test_any_value_anywhere(tmp_path: Path, kind: str, tree: object, data: st.DataObject) -> None:
    good = READERS[kind].good
    key = data.draw(st.sampled_from(sorted(good)))
    given_to(READERS[kind], tmp_path, json.dumps({**good, key: tree}).encode())
    if kind == "tokens":
        one = {**TOKEN, data.draw(st.sampled_from(sorted(TOKEN))): tree}
        given_to(READERS[kind], tmp_path, json.dumps({"format": 1, "tokens": [one]}).encode())


@pytest.mark.parametrize(
    ("kind", "key"), [("bank", "text"), ("cases", "id"), ("panel", "name"), ("policy", "panel")]
)
@bounded
@given(text=broken_texts)
def test_half_characters_are_refused(tmp_path: Path, kind: str, key: str, text: str) -> None:
    reader = READERS[kind]
    path = tmp_path / reader.name
    path.write_text(json.dumps({**reader.good, key: text}))
    read = {"bank": lambda: read_bank(path, PANEL), "cases": lambda: read_cases(path),
            "panel": lambda: load_panel(path), "policy": lambda: read_policy(path)}[kind]  # fmt: skip
    with pytest.raises(BadInput):
        read()


@few
@given(trees, st.integers(0), st.binary(min_size=1, max_size=40), st.data())
def test_any_change_of_a_network(
    tmp_path: Path, tree: object, place: int, inserted: bytes, data: st.DataObject
) -> None:
    """Sealed, as a card of another hand may be: what it says is checked, not believed."""
    save(toy_network(0), tmp_path)
    path = tmp_path / NETWORK_FILE
    whole = path.read_bytes()
    at = place % len(whole)
    path.write_bytes(whole[:at] + inserted + whole[at:])
    assert accepted(lambda: load(tmp_path)) is None
    path.write_bytes(whole)
    arrays, about = load_described(path)
    card = json.loads(about)
    card[data.draw(st.sampled_from(sorted(card)))] = tree
    save_arrays(path, {n: a.copy() for n, a in arrays.items()}, about=json.dumps(card))
    found = accepted(lambda: load(tmp_path))
    assert found is None or found.card.labels


@few
@given(st.binary(max_size=4000), st.booleans(), texts)
def test_any_audit_log_and_address(tmp_path: Path, data: bytes, headed: bool, url: str) -> None:
    path = tmp_path / "audit.sqlite3"
    for left in tmp_path.glob("audit.sqlite3*"):
        left.unlink()
    path.write_bytes((b"SQLite format 3\0" + bytes(84) if headed else b"") + data)
    try:
        AuditStore(f"sqlite:///{path}", AuditKey(bytes(32)), must_exist=True).close()
    except SimdxError:
        pass
    else:  # a header and nothing else is an empty database
        assert headed
        assert not data.strip(bytes(1))
    if not url.startswith(("sqlite:", "postgres")):
        assert accepted(lambda: AuditStore(url, AuditKey(bytes(32)))) is None


@bounded
@given(texts, st.dictionaries(st.sampled_from(["001", "1", "²", "x"]), trees, max_size=3))
def test_any_filled_form(tmp_path: Path, page: str, answers: dict[str, object]) -> None:
    if not (tmp_path / "made").exists():
        (tmp_path / "cases.jsonl").write_text('{"id": "1", "text": "a", "label": "gout"}\n')
        make_review(tmp_path / "cases.jsonl", tmp_path / "made", reviewers=["anna"], seed=1)
    sheet = open_review(tmp_path / "made")
    said = json.dumps({"review": sheet.review, "reviewer": "anna"}), json.dumps(answers)
    blocks = "".join(
        f'<script type="application/json" id="{name}">{text.replace("<", chr(92) + "u003c")}</script>'
        for name, text in zip(("setup", "answers"), said, strict=True)
    )
    for name, content in (("f.html", f"<html>{page}"), ("f.csv", page), ("g.html", blocks)):
        form = sheet.folder / name
        form.write_text(content, encoding="utf-8", errors="backslashreplace")
        accepted(lambda form=form: import_scores(sheet, form, role="reader"))


# --------------------------------------------------------------------------- what is written is read again


@few
@given(
    st.lists(filled_texts, min_size=1, max_size=4), st.lists(filled_texts, min_size=1, max_size=4),
    st.lists(filled_texts, max_size=2),
)  # fmt: skip
def test_banks_and_cases_come_back(
    tmp_path_factory: pytest.TempPathFactory, a: list[str], b: list[str], others: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("bank")
    index = np.array([0] * len(a) + [1] * len(b))
    bank = Bank("toy", PANEL.names, (*a, *b), index, background=tuple(others), name="toy")
    write_bank(folder / "bank", bank, PANEL)
    assert list(problems_of_bank(folder / "bank")) == []
    again = read_bank(folder / "bank", PANEL)
    assert (again.texts, again.background, again.hash) == (bank.texts, bank.background, bank.hash)
    for name in ("out.jsonl", "out.parquet"):
        export_bank(folder / "bank", folder / name)
        assert read_bank(folder / name, PANEL).hash == bank.hash
    merged = merge_banks([folder / "out.jsonl", folder / "out.parquet"], PANEL, folder / "merged")
    pairs = list(zip(bank.texts, ["a"] * len(a) + ["b"] * len(b), strict=True))
    assert sum(merged["labels"].values()) == len(set(pairs))
    rows = [{"text": text, "label": label} for text, label in pairs]
    (folder / "c.jsonl").write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows), "utf-8")
    pq.write_table(pa.Table.from_pylist(rows), folder / "c.parquet")
    with (folder / "c.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["text", "label"], *pairs])
    assert (
        read_cases(folder / "c.jsonl").texts
        == read_cases(folder / "c.parquet").texts
        == [t for t, _ in pairs]
    )
    table = accepted(lambda: read_cases(folder / "c.csv"))
    assert table is None or [case.label for case in table.cases] == [label for _, label in pairs]


@bounded
@given(texts, st.lists(filled_texts, min_size=2, max_size=5, unique_by=lambda t: t.strip().casefold()))
def test_a_scaffold_is_a_panel(tmp_path: Path, name: str, names: list[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(scaffold(name, dict.fromkeys(names, "")), encoding="utf-8")
    panel = accepted(lambda: load_panel(path))
    if panel is None:  # a control character YAML does not allow, or a name longer than a name
        assert problems_of(path)
    else:
        assert panel.names == tuple(n.strip() for n in names)


# --------------------------------------------------------------------------- large and deep


def test_lines_of_a_megabyte(tmp_path: Path) -> None:
    """A million characters are a case; one more is refused, and so is a number of a million digits."""
    path = tmp_path / "c.jsonl"
    for text, fits in (("é" * 1_000_000, True), ("word " * 200_000, True), ("x" * 1_000_001, False)):
        path.write_text(json.dumps({"text": text, "label": "a"}) + "\n", encoding="utf-8")
        assert (accepted(lambda: read_cases(path)) is not None) == fits
    digits = '{"text": "x", "n": ' + "9" * 5000 + "}"
    for line in ("[" * 1_000_000, "9" * 1_000_000, digits, "\\" * 1_000_000):
        path.write_text(line)
        assert accepted(lambda: read_cases(path)) is None


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "{a: " * 20_000, "- " * 50_000, "? " * 9_000, "a: |\n" + " " * 200_000]
)
def test_deep_and_long_files_end(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    assert problems_of(path)
