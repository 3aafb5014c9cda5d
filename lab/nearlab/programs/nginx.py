"""nginx: a master and two workers serve files to ab, a new connection for each request.

It is barely sensitive: 0.3 % (quick inputs) and 0.8 % of the samples are in malloc, without page
faults on its memory. A connection and a request are pools, each of a few blocks. The pages are
small; if more were compressed, most of the time would be zlib's.
Invariant: the bytes of every page depend on the pages alone. If our port is taken before nginx
binds it, another port is tried; the first reply must be the name of this server's folder.
"""

import hashlib
import http.client
import os
import pwd
import random
import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import which
from nearlab.programs.server import ServerError, ServerProgram, run_client, wait_until

_PAGES = {"small": 90, "medium": 900, "large": 9000}  # words
_CONFIGURATION = """
daemon off;
worker_processes 2;
{user}
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 512; }}
http {{
  access_log off;
  types {{ text/html html; }}
  root {pages};
  gzip on;
  gzip_comp_level 1;
  gzip_http_version 1.0;
  ssi on;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location = /whose {{ return 200 "{folder}"; }}
  }}
}}
"""


class Nginx(ServerProgram):
    name = "nginx"
    title = "pages to ab"
    needs = {"nginx": "nginx-light", "ab": "apache2-utils"}
    version = ("nginx", "-v")
    tree = True
    attempts = 4

    def __init__(self) -> None:
        self._pages = Path()
        self._requests = 0
        self._port = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._requests = 1500 if quick else 8000
        self._pages = folder / "pages"
        self._pages.mkdir()
        self._pages.chmod(0o755)
        rng = random.Random(3)
        for name, words in _PAGES.items():
            text = " ".join(rng.choice(("heap", "span", "page", "block")) for _ in range(words))
            (self._pages / f"{name}.html").write_text(text)
        parts = "".join(f'<!--#include virtual="/{name}.html"-->' for name in _PAGES)
        (self._pages / "joined.html").write_text(parts)

    def server(self, folder: Path) -> Sequence[str | Path]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        user = ""
        if os.geteuid() == 0:  # the workers keep our user, because the pages are ours
            name = pwd.getpwuid(0).pw_name
            user = f"user {name} {name};"
        configuration = folder / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(folder=folder, pages=self._pages, port=self._port, user=user)
        )
        return [which("nginx") or "nginx", "-e", "stderr", "-p", folder, "-c", configuration]

    def load(self, server: measure.Child, folder: Path) -> tuple[str, float]:
        wait_until(lambda: self._answers(folder), server)
        started = time.monotonic()
        answers = [self._digest(page, packed) for page in self._names() for packed in (False, True)]
        answers += [self._benchmark(page) for page in self._names()]
        return " ".join(answers), time.monotonic() - started

    def _names(self) -> Sequence[str]:
        return (*_PAGES, "joined")

    def _answers(self, folder: Path) -> bool:
        try:
            return self._get("/whose", {}) == str(folder).encode()
        except (OSError, http.client.HTTPException):
            return False

    def _get(self, path: str, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        if reply.status != http.client.OK:
            raise ServerError(f"{path}: status {reply.status}")
        return body

    def _digest(self, page: str, packed: bool) -> str:
        headers = {"Accept-Encoding": "gzip"} if packed else {}
        try:
            body = self._get(f"/{page}.html", headers)
        except http.client.HTTPException as error:
            raise ServerError(f"{page}: {error!r}") from None
        return hashlib.sha256(body).hexdigest()[:16]

    def _benchmark(self, page: str) -> str:
        """ab's summary: the number of pages, none of them bad, and their bytes."""
        packed = ("-H", "Accept-Encoding: gzip") if page == "medium" else ()
        address = f"http://127.0.0.1:{self._port}/{page}.html"
        printed = run_client(["ab", "-q", "-c", "20", "-n", str(self._requests), *packed, address])
        numbers = dict(re.findall(r"^(\w[\w -]*): +(\d+)", printed, re.MULTILINE))
        bad = int(numbers.get("Failed requests", -1)) + int(numbers.get("Non-2xx responses", 0))
        if bad or numbers.get("Complete requests") != str(self._requests):
            raise ServerError(f"ab: not all of {self._requests} requests were answered well")
        return f"{page}={numbers['HTML transferred']}"
