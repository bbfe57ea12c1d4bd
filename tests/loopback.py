"""Servers on loopback that stand for someone else's, and waiting for what comes about."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


def until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)
    return found


class Handler(BaseHTTPRequestHandler):
    """Of a server on loopback that stands for someone else's; it logs nothing."""

    def answer(self, status: int, kind: str, body: bytes, extra: tuple[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if extra:
            self.send_header(*extra)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Pages(ThreadingHTTPServer):
    """Answers GET from `pages`, by path: the arguments of `answer`, or what makes them; 404 elsewhere.

    It remembers what it was asked, and with what headers.
    """

    def __init__(self, pages: Mapping[str, Any] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _PagesHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.pages: dict[str, Any] = dict(pages or {})
        self.asked: list[tuple[str, Any]] = []


class _PagesHandler(Handler):
    server: Pages

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers))
        page = self.server.pages.get(self.path, (404, "text/plain", b""))
        self.answer(*(page() if callable(page) else page))


Server = TypeVar("Server", bound=ThreadingHTTPServer)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
