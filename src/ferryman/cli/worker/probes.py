"""Answers the probes of Kubernetes and the like from a thread of its own: a stuck event loop could not."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from ferryman.cli.worker.vitals import Answer, Vitals, liveness, readiness
from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROBES: dict[str, Callable[[Iterable[Vitals], float], Answer]] = {"/livez": liveness, "/readyz": readiness}
REQUEST_SECONDS = 5
"""How long a connection may last in all, even if its sender keeps sending."""
MOST_CONNECTIONS = 32
"""The most connections that may be open at a time. Each costs a file descriptor and a thread, which jobs may need."""


def serve_probes(host: str, port: int, everyone: Iterable[Vitals], patience: float) -> int:
    """Answer probes from now on until the process ends. Returns the port, which the system chose if `port` is 0.

    patience: how many seconds an event loop may be silent
    """

    class Probe(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            probe = PROBES.get(self.path.partition("?")[0])
            if probe is None:
                self._send(404, {"status": f"there is no {self.path!r}; use {' or '.join(PROBES)}"})
                return
            answer = probe(everyone, patience)
            self._send(200 if answer.is_good else 503, {"status": answer.status, "processes": answer.processes})

        do_HEAD = do_GET  # noqa: N815 - the name that the standard library looks for

        def _send(self, code: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode() + b"\n"
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes come every few seconds."""

    try:
        server = _Server(host, port, Probe)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"cannot serve health probes at {host}:{port}: {error}. No worker was started. Choose another "
            f"--health-port or --health-host."
        ) from None
    Thread(target=server.serve_forever, name="ferryman-health", daemon=True).start()
    return int(server.server_address[1])


class _Server(ThreadingHTTPServer):
    """The HTTP server for probes: ends connections that last too long, and the oldest one if there are too many.

    A new connection is worth more than an old one: probes are answered at once, so an old connection is not a probe.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, answering: type[BaseHTTPRequestHandler]) -> None:
        self._since: dict[socket.socket, float] = {}
        self._ending: set[socket.socket] = set()
        self._lock = Lock()
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__((host, port), answering)

    def server_bind(self) -> None:
        """Bind without looking up the host's name, as the base class does: a name server may take long to answer."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def verify_request(self, *_: object) -> bool:
        """True unless connections come faster than their threads can end."""
        with self._lock:
            return len(self._since) < 2 * MOST_CONNECTIONS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread. If there are too many connections, end the oldest."""
        with self._lock:
            self._since[request] = time.monotonic()
            lasting = [one for one in self._since if one not in self._ending]
            for one in lasting[:-MOST_CONNECTIONS]:
                self._end(one)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections that last too long. The base class calls this at least twice a second."""
        now = time.monotonic()
        with self._lock:
            for one, since in self._since.items():
                if one not in self._ending and now - since > REQUEST_SECONDS:
                    self._end(one)

    def _end(self, one: socket.socket) -> None:
        """Make the connection's thread read the end of the connection; the thread closes it."""
        self._ending.add(one)
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._since.pop(request, None)
            self._ending.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Ignore a probe that hangs up early."""
