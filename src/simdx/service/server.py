"""Running the application: one process, one socket, a log without case text."""

import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable

from simdx.errors import BadInput, MissingExtra
from simdx.service.config import BACKLOG, ServiceConfig


def serve(config: ServiceConfig, announce: Callable[[str], None], access_log: bool = False) -> None:
    """Bind, load, answer until interrupted. Raises BadInput for what the operator can mend."""
    try:
        from simdx.service.app import create_app, server_for
        from simdx.service.registry import refuse_remote
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "simdx":
            raise
        raise MissingExtra("the service", "service") from None
    refuse_remote(config)
    with _listening(config.host, config.port) as listener:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(message)s"))
        logging.basicConfig(handlers=[handler])
        logging.getLogger("simdx.service").setLevel(logging.INFO if access_log else logging.WARNING)
        if sys.stderr.isatty():  # a person waits some seconds here; a log has no use for it
            announce("loading panels and their banks …")
        app = create_app(config)
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        announce(plain(f"simdx service on {url} (panels: {', '.join(app.state.simdx.registry.names)})"))
        # uvicorn re-raises the signal that stopped it; a stop by SIGTERM is an orderly end, not a failure.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        # The engine lets go of the interpreter at every product of matrices, and beside a busy event loop
        # would get it back after 5 ms each time.
        sys.setswitchinterval(0.0005)
        gc.freeze()  # what is loaded stays
        server_for(app, config.limits).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = str(error.strerror or error).partition(" (while")[0]  # the address is said once
        raise BadInput(
            f"cannot listen on {host} port {port}: {why}; choose another with --port "
            "(0 takes a free one) or --host"
        ) from None


def plain(text: str) -> str:
    """The text with control characters, line ends aside, as escapes: nothing in it steers a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
