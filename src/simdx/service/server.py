"""Running the application: one process, one socket, a log without case text."""

import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace

from simdx.errors import BadInput, MissingExtra
from simdx.service.config import Limits, ServiceConfig

BACKLOG = 1_024  # connections the kernel keeps until they are accepted
OTHER_FILES = 128  # open beside the sockets: the audit log, panels, libraries
# Bytes the kernel keeps for a connection: of replies nobody reads, and of bodies nobody may send.
SEND_BUFFER, RECEIVE_BUFFER = 65_536, 32_768


def serve(config: ServiceConfig, announce: Callable[[str], None], access_log: bool = False) -> None:
    """Bind, load, answer until interrupted. Raises BadInput for what the operator can mend."""
    try:
        from simdx.service.app import create_app
        from simdx.service.connections import server_for
        from simdx.service.registry import refuse_remote
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "simdx":
            raise
        raise MissingExtra("the service", "service") from None
    refuse_remote(config)
    listener = _bind(config.host, config.port)
    try:
        logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("simdx.service").setLevel(logging.INFO if access_log else logging.WARNING)
        if sys.stderr.isatty():  # a person waits some seconds here; a log has no use for it
            announce("loading panels and their banks …")
        app = create_app(config)
        house = app.state.house
        server = server_for(app, _with_files(config.limits), house.meters, house.guard.is_heard)
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        announce(f"simdx service on {url} (panels: {', '.join(house.registry.names)})")
        # uvicorn re-raises the signal that stopped it; a stop by SIGTERM is an orderly end, not a failure.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        # The engine lets go of the interpreter at every product of matrices, and beside a busy event loop
        # would get it back after 5 ms each time.
        sys.setswitchinterval(0.0005)
        gc.freeze()  # what is loaded stays
        server.run(sockets=[listener])
    finally:
        listener.close()


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise BadInput(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with --port "
            "(0 takes a free one) or --host"
        ) from None
    return listener


def _with_files(limits: Limits) -> Limits:
    """No more sockets than the process may have files, after asking for as many as are needed."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such limit
        return limits
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.sockets + OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return replace(limits, sockets=max(1, min(limits.sockets, most - OTHER_FILES)))
