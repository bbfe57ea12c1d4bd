"""A server that misbehaves on purpose, and else answers with canned texts.

Each request takes the next fault of the list; when the list is used up, requests pass. Faults:
    "429" or "429:0.2"   too many requests, with Retry-After where seconds are given
    "500", "503", "400", "401"   that status
    "hang"               no answer before the client's timeout
    "reset"              the connection is cut without a reply
    "half"               the reply breaks off in the middle
    "malformed"          status 200 and something that is not JSON
    "wrong"              status 200 and JSON that is not a completion
    "empty"              a completion without text
    "ok"                 passes
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

HANG_SECONDS = 1.5


class FaultyServer:
    """`url` is its OpenAI-style base address; `seen` counts the requests that reached it."""

    def __init__(self, faults: Iterable[str] = (), delay: float = 0.0) -> None:
        self.faults, self.delay = list(faults), delay
        self.seen = self.at_once = self.most_at_once = 0
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                return None

            def do_POST(self) -> None:
                with owner._lock:
                    owner.at_once += 1
                    owner.most_at_once = max(owner.most_at_once, owner.at_once)
                time.sleep(owner.delay)
                with owner._lock:
                    owner.at_once -= 1
                owner._handle(self)

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Die: the port closes, connections are refused until `start`."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        self.headers.append({k.lower(): v for k, v in handler.headers.items()})
        with self._lock:
            self.seen += 1
            self.times.append(time.monotonic())
            fault, _, seconds = (self.faults.pop(0) if self.faults else "ok").partition(":")
        handler.close_connection = True
        if fault.isdigit():
            extra = {"Retry-After": seconds} if seconds else {}
            secret = handler.headers.get("authorization", "")
            _reply(handler, int(fault), json.dumps({"error": {"message": f"no: {secret}"}}).encode(), extra)
        elif fault == "hang":
            time.sleep(HANG_SECONDS)
        elif fault == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
        elif fault in CANNED:
            _reply(handler, 200, CANNED[fault], {})
        else:
            whole = _answer(body, handler.path)
            sent = whole[: len(whole) // 2] if fault == "half" else whole
            _reply(handler, 200, sent, {"Content-Length": str(len(whole))})


def _answer(body: bytes, path: str) -> bytes:
    asked = json.loads(body)
    if path.endswith("/embeddings"):
        vectors = enumerate([float(len(text)), 1.0, 0.0] for text in asked["input"])
        data = [{"index": i, "embedding": vector} for i, vector in vectors]
        return json.dumps({"data": data[::-1]}).encode()
    words = asked["messages"][-1]["content"].split()
    return json.dumps(_completion("It has hurt since " + " ".join(words[:6]), len(words))).encode()


def _completion(text: str, prompt_tokens: int) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": len(text.split())},
    }


def _reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
    handler.send_response(status)
    told = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    for name, value in told.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


CANNED = {
    "malformed": b'{"choices": [{"message": {"content": "A broken',
    "wrong": b'{"object": "list", "data": []}',
    "empty": json.dumps(_completion("", 0)).encode(),
}
