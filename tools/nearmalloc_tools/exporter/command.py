"""`./near exporter PID|NAME...`: serves metrics of processes, or prints them once."""

import sys
import time
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.openmetrics.exposition import generate_latest

from nearmalloc_tools import typer_app
from nearmalloc_tools.exporter.metrics import Processes
from nearmalloc_tools.top.process import Refused


def exporter(
    targets: Annotated[list[str], typer.Argument(metavar="PID|NAME...")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any")] = 9464,
    address: Annotated[str, typer.Option(help="where to listen")] = "127.0.0.1",
    once: Annotated[bool, typer.Option("--once", help="print the metrics and end")] = False,
) -> None:
    """Serves metrics of processes under nearmalloc, for Prometheus. They run on meanwhile.

    A name means all processes that have it at the time of a scrape.
    """
    processes = Processes(targets)
    try:
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
            server, _ = start_http_server(port, address, registry)
        except OSError as error:
            raise Refused(f"cannot listen on {address}:{port}: {error.strerror}") from error
        where = f"http://{address}:{server.server_port}/metrics"
        print(f"near: metrics are at {where}", file=sys.stderr, flush=True)
        while True:
            time.sleep(3600)
    except Refused as refusal:
        print(f"near: {refusal}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    typer_app.run(exporter, "exporter")
