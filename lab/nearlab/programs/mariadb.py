"""MariaDB: the server answers a script (lab/programs/shop.sql), then four threads of sysbench.

It is barely sensitive to the allocator: 1.7 % of the server's time is spent in malloc with
quick inputs, 1.1 % with the others; statements take their memory in blocks of kilobytes.
Invariant: the answers to the script depend on the script alone; sysbench's threads take the next
free work, but the number of its queries is fixed. A run works on a copy of one data folder.
"""

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import SOURCES, TIMEOUT_S, PrepareError, last_line, which
from nearlab.programs.server import ServerError, ServerProgram, connect, run_client

_TABLES = ("--tables=2", "--table-size=1000", "--rand-seed=7", "--db-driver=mysql")


class MariaDb(ServerProgram):
    name = "mariadb"
    title = "SQL, sysbench"
    needs = {
        "mariadbd": "mariadb-server-core",
        "mariadb": "mariadb-client-core",
        "sysbench": "sysbench",
    }
    version = ("mariadbd", "--no-defaults", "--version")

    def __init__(self) -> None:
        self._data = Path()
        self._script = ""
        self._events = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._events = 500 if quick else 3000
        rows = 3000 if quick else 12000
        self._script = (SOURCES / "shop.sql").read_text().replace(":rows", str(rows))
        self._data = folder / "mariadb"
        self._data.mkdir()
        done = subprocess.run(
            [*_server(self._data), "--bootstrap"],
            input="CREATE DATABASE near;\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        if done.returncode != 0:
            raise PrepareError(f"mariadbd makes no data folder{last_line(done.stderr)}")

    def server(self, folder: Path) -> Sequence[str | Path]:
        data = shutil.copytree(self._data, folder / "data")
        # The data folder is deleted after the run, so the shutdown need not write it.
        return [*_server(data), f"--socket={folder / 'socket'}", "--innodb-fast-shutdown=2"]

    def load(self, server: measure.Child, folder: Path) -> tuple[str, float]:
        path = folder / "socket"
        with connect(server, path):
            started = time.monotonic()
        answer = hashlib.sha256(self._ask(path).encode()).hexdigest()
        counts = [
            self._sysbench(path, test, events)
            for test, events in (
                ("oltp_read_only", self._events),
                ("oltp_update_non_index", 4 * self._events),
            )
        ]
        return " ".join([answer, *counts]), time.monotonic() - started

    def _ask(self, path: Path) -> str:
        options = ("--no-defaults", "--batch", "--skip-column-names", "-S", str(path), "near")
        return run_client(["mariadb", *options], input=self._script)

    def _sysbench(self, path: Path, test: str, events: int) -> str:
        """The number of queries by kind. They are sent as text, to be parsed each time."""
        printed = run_client(
            [
                *("sysbench", test, *_TABLES, f"--mysql-socket={path}", "--mysql-user=root"),
                *("--mysql-db=near", "--threads=4", "--time=0", "--db-ps-mode=disable"),
                *(f"--events={events}", "run"),
            ]
        )
        counts = re.findall(r"(read|write|other|ignored errors): +(\d+)", printed)
        if dict(counts).get("ignored errors") != "0":
            raise ServerError(f"sysbench {test}: queries failed")
        return ",".join(number for _, number in counts)


def _server(data: Path) -> list[str | Path]:
    """The server with only its data: no network, no privileges, no log that outlives it."""
    return [
        *(which("mariadbd") or "mariadbd", "--no-defaults", "--skip-networking"),
        *(f"--user={pwd.getpwuid(os.geteuid()).pw_name}", "--skip-grant-tables"),
        *(f"--datadir={data}", f"--tmpdir={data}", "--skip-log-bin"),
        *("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=64M"),
        *("--innodb-flush-log-at-trx-commit=0", "--innodb-use-native-aio=0"),
    ]
