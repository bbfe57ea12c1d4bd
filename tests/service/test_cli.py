"""`simdx serve`, `simdx token` and `simdx audit` as a user runs them."""

import contextlib
import io
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from simdx.cli.main import run
from simdx.service.audit import AuditStore
from simdx.service.audit_chain import AuditKey
from simdx.service.config import ServiceConfig
from tests.service.audit_logs import entry


def simdx(*args: str, home: Path | None) -> subprocess.CompletedProcess[str]:
    """One command in this process: what it printed, and how it ended."""
    out, err = io.StringIO(), io.StringIO()
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
    )
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in {**threads, **({"SIMDX_HOME": str(home)} if home else {})}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            run(list(args))
    return subprocess.CompletedProcess(list(args), int(ended.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A service folder with three records."""
    folder = tmp_path / "service"
    folder.mkdir()
    key = AuditKey.from_file(folder / "audit.key", create=True)
    file = folder / "audit.sqlite3"
    store = AuditStore(f"sqlite:///{file}", key, checkpoints=Path(f"{file}.checkpoints"))
    store.append([entry(i, text=f"case {i}") for i in (1, 2, 3)])
    store.close()
    return tmp_path


def test_verify_holds_and_then_does_not(log: Path) -> None:
    verdict = json.loads(simdx("audit", "verify", "--json", home=log).stdout)
    assert (verdict["ok"], verdict["records"]) == (True, 3)
    assert simdx("audit", "verify", "--head", verdict["head"], home=log).returncode == 0
    assert simdx("audit", "verify", "--head", "0" * 64, home=log).returncode == 1
    with contextlib.closing(sqlite3.connect(log / "service" / "audit.sqlite3")) as connection, connection:
        connection.execute("UPDATE records SET caller = 'nobody' WHERE seq = 2")
    broken = simdx("audit", "verify", home=log)
    assert (broken.returncode, broken.stderr.count("\n")) == (1, 1)
    assert "record 2" in broken.stderr


def test_export_can_be_verified_elsewhere_and_shows_tampering(log: Path, tmp_path: Path) -> None:
    out, noted = tmp_path / "export.jsonl", str(log / "service" / "audit.sqlite3.checkpoints")
    done = simdx("audit", "export", "--out", str(out), "--json", home=log)
    assert json.loads(done.stdout)["records"] == 3
    assert out.stat().st_mode & 0o777 == 0o600
    said = out.read_text()
    assert '"text":' not in said
    key = str(log / "service" / "audit.key")

    def verified(*options: str) -> int:
        asked = ("audit", "verify", "--from", str(out), "--key", key, *options)
        return simdx(*asked, home=tmp_path / "other").returncode

    assert verified() == verified("--checkpoints", noted) == 0
    out.write_text("".join(said.splitlines(keepends=True)[:2]))
    assert (verified(), verified("--checkpoints", noted)) == (0, 1)  # an older export, or one that was cut
    assert verified("--checkpoints", "absent") == 2
    out.write_text(said.replace("0.9", "0.8", 1))
    assert verified() == 1


SERVE = ("serve", "--port", "0", "--panel", "oral-lesions")
EHR, PUBLIC = "https://ehr.example", ("--public-url", "https://simdx.example")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("audit", "verify"), "no audit key"), (("audit", "export"), "no audit key"),
        (("audit", "verify", "--from", "absent.jsonl"), ""), (("token", "new", "a/b"), ""),
        (("token", "new", "x", "--scope", "root"), "scopes are"),
        (("token", "new", "x", "--scope", "admin", "--panel", "oral-lesions"), ""),
        (("token", "revoke", "nobody"), "no active token"), ((*SERVE, *PUBLIC), "simdx token new"),
        ((*SERVE, "--allowed-host", "simdx.example"), "simdx token new"),
        ((*SERVE, "--host", "0.0.0.0"), "simdx token new"), ((*SERVE, "--require-token"), "simdx token new"),
        ((*SERVE, "--cors-origin", EHR), "--cors-origin needs tokens"),
        ((*SERVE[:4], "nothing"), "unknown panel"), ((*SERVE, "--audit", "mysql://x"), "sqlite:///FILE"),
        ((*SERVE, "--public-url", "ftp://x"), "public"), (("serve", "--host", "999.1.1.1"), ""),
        ((*SERVE, "--cds-client", EHR), "--cds-client is ISSUER=KEYS"),
        ((*SERVE, "--cds-client", "ehr=k.json", *PUBLIC), "the issuer is a URI"),
        ((*SERVE, "--cds-client-panel", f"{EHR}=oral-lesions"), "without a --cds-client"),
        ((*SERVE, "--cds-client", f"{EHR}=none.json", *PUBLIC), "none.json cannot be read"),
        (("serve", "--panel", "@/mine.yaml", "--port", "0"), "--panel @/mine.yaml=BANK"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_2(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("labels: [a, b]\n", encoding="utf-8")
    done = simdx(*(word.replace("@", str(tmp_path)) for word in args), home=tmp_path)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert done.stderr.startswith("simdx: ")
    assert said.replace("@", str(tmp_path)) in done.stderr


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    def token(*args: str) -> Any:
        return json.loads(simdx("token", *args, "--json", home=tmp_path).stdout)

    made = token("new", "clinic", "--scope", "admin", "--days", "3")
    assert made["token"].startswith(f"sdx_{made['id']}_")
    assert token("new", "ward", "--panel", "oral-lesions")["panels"] == ["oral-lesions"]
    assert "oral-lesions" in simdx("token", "list", home=tmp_path).stdout
    assert simdx("token", "revoke", "clinic", home=tmp_path).returncode == 0
    (first, _) = token("list")["tokens"]
    assert (first["scopes"], bool(first["revoked"])) == (["admin"], True)
    assert made["token"] not in str(first)


@contextlib.contextmanager
def serving(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service in a process of its own, and its address."""
    command = [sys.executable, "-m", "simdx", "serve", "--port", "0", "--panel", "oral-lesions", *options]
    environment = {**os.environ, "SIMDX_HOME": str(home)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        found = (re.search(r"(http://127\.0\.0\.1:\d+)", line) for line in process.stderr)
        yield process, next(match.group(1) for match in found if match)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def test_a_running_service_answers_logs_no_text_and_ends_in_order(tmp_path: Path) -> None:
    with serving(tmp_path, "--access-log") as (process, address):
        port = address.rsplit(":", 1)[1]
        body = json.dumps({"panel": "oral-lesions", "text": "A bluish lip, says Quatermass."}).encode()
        request = urllib.request.Request(f"{address}/v1/classify", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            assert json.load(reply)["panel"] == "oral-lesions"
            assert "server" not in {k.lower() for k in reply.headers}
        busy = simdx("serve", "--port", port, home=tmp_path)
        assert busy.returncode == 2
        assert "cannot listen" in busy.stderr
        assert "--port" in busy.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        log = process.stderr.read()
    assert "/v1/classify 200" in log
    assert "Quatermass" not in log
    assert "Traceback" not in log
    verdict = simdx("audit", "verify", "--json", home=tmp_path)
    assert json.loads(verdict.stdout)["records"] == 1


def test_a_running_service_waits_for_no_strangers_body(tmp_path: Path) -> None:
    """A stranger's body was waited for, and made-up tokens held every place: an honest caller got 503."""
    made = simdx("token", "new", "honest", home=tmp_path).stdout.split()[-1]
    with serving(tmp_path, "--require-token") as (_, address), contextlib.ExitStack() as held:
        host, port = address.removeprefix("http://").split(":")
        for i in range(1_100):  # more than all places, with a body that never comes
            client = held.enter_context(socket.create_connection((host, int(port)), 10))
            client.sendall(
                f"POST /v1/classify HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
                f"content-length: 1000\r\nauthorization: Bearer sdx_{i:08x}_made-up\r\n\r\n".encode()
            )
            assert i or client.recv(100).startswith(b"HTTP/1.1 401 ")
        body = json.dumps({"panel": "oral-lesions", "text": "A soft bluish swelling of the lip."}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {made}"}
        request = urllib.request.Request(f"{address}/v1/classify", body, headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert reply.status == 200


def test_a_service_computes_in_one_thread_for_each_library() -> None:
    """The limit is read when numpy is loaded, so nothing before it may load numpy."""
    script = (
        "import sys, simdx.cli.main, simdx.cli.serve\n"
        "from simdx.service import limit_threads\n"
        "assert 'numpy' not in sys.modules\n"
        "limit_threads()\n"
        "import numpy, scipy.linalg\n"
        "from threadpoolctl import threadpool_info\n"
        "found = threadpool_info()\n"
        "assert found and all(library['num_threads'] == 1 for library in found), found\n"
    )
    asked = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", script], env=asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_that_must_last_lies_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SIMDX_HOME", "SIMDX_DATA"):
        monkeypatch.delenv(name, raising=False)
    for folder in ("cache", "data"):
        monkeypatch.setattr(platformdirs, f"user_{folder}_dir", lambda *_, at=tmp_path / folder: str(at))
    data, config = tmp_path / "data" / "service", ServiceConfig()
    assert {config.token_file.parent, config.audit_key.parent} == {data}
    assert config.audit_url == f"sqlite:///{data}/audit.sqlite3"
    simdx("token", "new", "clinic", home=None)
    assert (data / "tokens.json").exists()
    assert not (tmp_path / "cache" / "service").exists()
    for name, key in (("SIMDX_HOME", "/a/service/audit.key"), ("SIMDX_DATA", "/a/audit.key")):
        monkeypatch.setenv(name, "/a")  # the environment names another place
        assert ServiceConfig().audit_key == Path(key)
