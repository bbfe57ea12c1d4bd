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
from http.server import ThreadingHTTPServer
from typing import Any, Self

from tests.loopback import Handler

HANG_SECONDS = 1.5
JSON = "application/json"


class FaultyServer:
    """`url` is its OpenAI-style base address; `seen` counts the requests that reached it."""

    def __init__(self, faults: Iterable[str] = (), delay: float = 0.0) -> None:
        self.faults, self.delay = list(faults), delay
        self.seen = self.at_once = self.most_at_once = self.port = 0
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _FaultyHandler)
        self._server.daemon_threads, self._server.owner = True, self
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Die: the port closes, connections are refused until `start`."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _FaultyHandler(Handler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        owner: FaultyServer = self.server.owner
        with owner.lock:
            owner.at_once += 1
            owner.most_at_once = max(owner.most_at_once, owner.at_once)
        time.sleep(owner.delay)
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        with owner.lock:
            owner.at_once -= 1
            owner.seen += 1
            owner.times.append(time.monotonic())
            owner.headers.append({name.lower(): value for name, value in self.headers.items()})
            fault, _, seconds = (owner.faults.pop(0) if owner.faults else "ok").partition(":")
        self.close_connection = True
        if fault.isdigit():
            told = json.dumps({"error": {"message": f"no: {self.headers.get('authorization', '')}"}})
            extra = ("Retry-After", seconds) if seconds else None
            self.answer(int(fault), JSON, told.encode(), extra)
        elif fault == "hang":
            time.sleep(HANG_SECONDS)
        elif fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif fault == "half":
            whole = _answer(asked, self.path)
            self.send_response(200)
            self.send_header("content-length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole[: len(whole) // 2])
        else:
            self.answer(200, JSON, CANNED.get(fault) or _answer(asked, self.path))


def _answer(asked: dict[str, Any], path: str) -> bytes:
    if path.endswith("/embeddings"):
        vectors = enumerate([float(len(text)), 1.0, 0.0] for text in asked["input"])
        data = [{"index": i, "embedding": vector} for i, vector in vectors]
        return json.dumps({"data": data[::-1]}).encode()
    words = asked["messages"][-1]["content"].split()
    return _completion("It has hurt since " + " ".join(words[:6]), len(words))


def _completion(text: str, prompt_tokens: int) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(text.split())}
    return json.dumps(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    ).encode()


CANNED = {
    "malformed": b'{"choices": [{"message": {"content": "A broken',
    "wrong": b'{"object": "list", "data": []}',
    "empty": _completion("", 0),
}
