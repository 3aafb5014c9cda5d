"""`nearmalloc exporter PID|NAME...`: serves metrics of processes, or prints them once."""

import contextlib
import socket
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.openmetrics.exposition import generate_latest

from nearmalloc_tools.errors import Refused, say
from nearmalloc_tools.exporter.metrics import Processes


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """A scrape leaves no line on stderr."""


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each scrape in a thread of its own, on an address of IPv4 or IPv6."""

    daemon_threads = True

    def __init__(self, address: str, port: int) -> None:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        self.address_family = found[0]
        super().__init__(found[4][:2], _Handler)  # type: ignore[arg-type]  # not Bluetooth's


def exporter(targets: list[str], port: int, address: str, once: bool) -> None:
    """Prints metrics once, or serves them until the user interrupts."""
    processes = Processes(targets)
    for target in targets:
        found, refusals = processes.read(target)
        if not found:
            raise refusals[0]
    registry = CollectorRegistry()
    registry.register(processes)
    if once:
        text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
        sys.stdout.write(text.decode("utf-8"))
        return
    try:
        server = _Server(address, port)
    except OSError as error:
        raise Refused(f"cannot listen on {address}:{port}: {error.strerror}") from error
    server.set_app(make_wsgi_app(registry))
    host = f"[{address}]" if ":" in address else address
    say(f"metrics are at http://{host}:{server.server_port}/metrics")
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
