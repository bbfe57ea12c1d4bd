"""A server that counts: what of a text reached it, byte by byte, before anything was parsed."""

import hashlib
import json
import socket
import threading
from typing import Any, Self

import pytest

SECRET = "sk-canary-secret"
FAR = "canary.example"  # a name is all that tells this host from loopback: it counts as another machine


class Canary:
    """Listens, keeps every byte it is sent, and answers as an OpenAI-compatible server would."""

    def __init__(self, host: str = "127.0.0.1", redirect_to: str | None = None) -> None:
        self.received = b""
        self._redirect_to = redirect_to
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, host: str = FAR) -> str:
        return f"http://{host}:{self.port}/v1"

    def model(self, host: str = FAR) -> str:
        return f"openai:m@{self.url(host)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(20)
            pending = b""
            try:
                while chunk := connection.recv(65_536):
                    with self._lock:
                        self.received += chunk
                    pending += chunk
                    head, found, body = pending.partition(b"\r\n\r\n")
                    if found and len(body) >= _length(head):
                        connection.sendall(self._reply(head, body))
                        pending = b""
            except OSError:
                return

    def _reply(self, head: bytes, body: bytes) -> bytes:
        path = head.split()[1].decode()
        if self._redirect_to is not None:
            where = f"Location: {self._redirect_to}{path.removeprefix('/v1')}\r\n"
            return f"HTTP/1.1 307 Elsewhere\r\n{where}Content-Length: 0\r\n\r\n".encode()
        answer = json.dumps(_answer(path, json.loads(body or b"{}"))).encode()
        kind = "Content-Type: application/json\r\n"
        return f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(answer)}\r\n\r\n".encode() + answer


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _answer(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    if path.endswith("/embeddings"):
        hashed = [hashlib.sha256(text.encode()).digest()[:8] for text in asked["input"]]
        return {"data": [{"index": i, "embedding": [b - 127.5 for b in h]} for i, h in enumerate(hashed)]}
    # Another text for every seed, as a bank of a model's would have.
    said = f"A text about nothing in particular, the {asked.get('seed', 0)}th of its kind, with some words."
    message = {"role": "assistant", "content": said}
    likely = [{"token": letter, "logprob": -1.0 - i} for i, letter in enumerate("ABC")]
    logprobs = {"content": [{**likely[0], "top_logprobs": likely}]} if asked.get("logprobs") else None
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9},
    }


def names_of(canary: Canary) -> dict[str, str]:
    """The canary as an embedder, by itself and beside others."""
    far = canary.model()
    return {"alone": far, "joint": f"hashing+{far}", "wordllama joint": f"wordllama+{far}"}


def lead(monkeypatch: pytest.MonkeyPatch, name: str, address: str) -> None:
    """From now on this host name stands for that address; no name service is asked."""
    real = socket.getaddrinfo

    def found(host: Any, *rest: Any, **more: Any) -> Any:
        return real(address if host in (name, name.encode()) else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)


def own_address() -> str | None:
    """An address of this machine that is not loopback, where it has one; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = str(probe.getsockname()[0])
    return None if found.startswith(("127.", "0.")) else found
