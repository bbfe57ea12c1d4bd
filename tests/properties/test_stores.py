"""What simdx wrote itself and others may have touched: tokens, the audit log, networks, records, arrays."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdx.amortised.network import NETWORK_FILE, load, save
from simdx.disk import load_described, save_arrays
from simdx.errors import SimdxError
from simdx.runs import Store
from simdx.service.audit import AuditKey, AuditStore
from simdx.service.auth import TokenFile
from tests.faults.networks import toy_network
from tests.properties.strategies import accepted, bounded, few, texts, trees


@bounded
@given(st.binary(max_size=200), trees)
def test_any_token_file(tmp_path: Path, data: bytes, tree: object) -> None:
    path = tmp_path / "tokens.json"
    for content in (data, json.dumps(tree).encode(), json.dumps({"format": 1, "tokens": tree}).encode()):
        path.write_bytes(content)
        accepted(TokenFile(path).list)
        assert accepted(lambda: TokenFile(path).check("sdx_a_b")) is None


@bounded
@given(
    st.sampled_from(["id", "name", "scopes", "sha256", "created", "expires", "revoked", "panels"]),
    trees,
    texts,
)
def test_one_value_of_a_token(tmp_path: Path, key: str, tree: object, sent: str) -> None:
    """Whatever a file says of a token, a caller who sends other words than the token's is nobody."""
    token = {"id": "ab", "name": "n", "scopes": ["classify"], "sha256": "0" * 64}
    token["created"] = "2026-01-01T00:00:00Z"
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"format": 1, "tokens": [{**token, key: tree}]}))
    assert accepted(lambda: TokenFile(path).check(f"sdx_ab_{sent}")) is None


@few
@given(st.binary(max_size=4000), st.booleans())
def test_any_audit_log(tmp_path: Path, data: bytes, headed: bool) -> None:
    path = tmp_path / "audit.sqlite3"
    for left in tmp_path.glob("audit.sqlite3*"):
        left.unlink()
    path.write_bytes((b"SQLite format 3\0" + bytes(84) if headed else b"") + data)
    key = AuditKey(bytes(32))
    try:
        store = AuditStore(f"sqlite:///{path}", key, must_exist=True)
        store.close()
    except SimdxError:
        refused = True
    else:
        refused = False
    assert refused or (headed and not data.strip(bytes(1)))  # a header and nothing else is an empty database


@bounded
@given(texts, st.binary(max_size=80))
def test_any_audit_address_and_key(tmp_path: Path, url: str, secret: bytes) -> None:
    if not url.startswith(("sqlite:", "postgres")):
        assert accepted(lambda: AuditStore(url, AuditKey(bytes(32)))) is None
    path = tmp_path / "key"
    path.write_bytes(secret)
    accepted(lambda: AuditKey.from_file(path))


@bounded
@given(trees, st.binary(max_size=120))
def test_any_record(tmp_path: Path, tree: object, data: bytes) -> None:
    cells = tmp_path / "cells"
    cells.mkdir(exist_ok=True)
    record = {"format": 1, "status": "done", "x": tree}
    for content in (data, json.dumps(tree).encode(), json.dumps(record).encode()):
        (cells / "c.json").write_bytes(content)
        found = Store(tmp_path).read("c")
        assert found is None or found.status in ("done", "failed", "not run")
        assert len(Store(tmp_path).records()) == (found is not None)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("network")
    save(toy_network(0), folder)
    return folder


@bounded
@given(trees, st.data())
def test_any_value_in_a_networks_card(network: Path, tree: object, data: st.DataObject) -> None:
    """Sealed, as a card of another hand may be: what it says is checked, not believed."""
    path = network / NETWORK_FILE
    whole = path.read_bytes()
    arrays, about = load_described(path)
    card = json.loads(about)
    key = data.draw(st.sampled_from(sorted(card)))
    try:
        save_arrays(path, {n: a.copy() for n, a in arrays.items()}, about=json.dumps({**card, key: tree}))
        found = accepted(lambda: load(network))
        if found is not None:
            assert found.card.labels
    finally:
        path.write_bytes(whole)


@few
@given(st.integers(0), st.binary(min_size=1, max_size=40))
def test_any_change_of_a_networks_weights(network: Path, place: int, data: bytes) -> None:
    path = network / NETWORK_FILE
    whole = path.read_bytes()
    try:
        at = place % len(whole)
        path.write_bytes(whole[:at] + data + whole[at:])
        assert accepted(lambda: load(network)) is None
    finally:
        path.write_bytes(whole)
    assert load(network).card.panel == "toy"
