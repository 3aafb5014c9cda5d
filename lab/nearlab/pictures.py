"""`./near lab pictures`: the pictures in docs of the profile's page and of `./near top`.

Both show a server of this project while it runs, drawn by a headless Chromium.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.terminal_theme import MONOKAI

from nearlab import places
from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.census import Reader
from nearmalloc_tools.top.process import Process, find_layout
from nearmalloc_tools.top.threads import Threads
from nearmalloc_tools.top.view import History, picture

if TYPE_CHECKING:
    from selenium import webdriver

_TOP = """<!DOCTYPE html><meta charset="utf-8"><style>
{stylesheet}
body {{ margin: 0; background: {background}; color: {foreground}; }}
pre {{ display: inline-block; margin: 0; padding: 16px; font: 13px/1.25 monospace; }}
</style><pre>{code}</pre>"""
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_LONG = "1000000000"  # requests: more than anybody waits for


def _library() -> Path:
    library = places.nearmalloc_library()
    if not library.exists():
        raise Refused(f"there is no {library}")
    return library


@contextmanager
def _browser(width: int, height: int) -> "Iterator[webdriver.Chrome]":
    from selenium import webdriver  # the package of the lab does without it
    from selenium.webdriver.chrome.service import Service

    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        raise Refused("chromium and chromedriver are needed: Debian's chromium-driver has both")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--window-size={width},{height}", "--hide-scrollbars"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


def compiled(folder: Path) -> Path:
    """The server: clients and workers that free each other's buffers, and a store that evicts."""
    program = folder / "kvserver"
    source = places.program_sources() / "kvserver.cc"
    words = ["c++", "-std=c++20", "-O2", "-g", "-pthread", str(source), "-o", str(program)]
    subprocess.run(words, check=True)
    return program


def draw_profile(program: Path, requests: int, out: Path) -> None:
    """The beginning of the page of `./near profile`, for a whole run of the server."""
    page = program.parent / "page.html"
    words = ["--out", str(page), "--", str(program), "2", "2", str(requests)]
    subprocess.run(
        [sys.executable, "-m", "nearmalloc_tools", "profile", *words],
        env=os.environ
        | {"NEAR_LIBRARY": str(_library()), "PYTHONPATH": str(places.ROOT / "tools")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    with _browser(1180, 1400) as browser:
        browser.get(page.as_uri())
        # At the end of its run the server has freed nearly everything.
        browser.find_element("css selector", "[data-measure=peak]").click()
        browser.save_screenshot(str(out))


def draw_top(program: Path, seconds: float, out: Path) -> None:
    """The live view of the server, that long after its start."""
    running = subprocess.Popen(
        [program, "2", "2", _LONG], env=os.environ | {"LD_PRELOAD": str(_library())}
    )
    try:
        history = _watch(running.pid, seconds)
    finally:
        running.kill()
        running.wait()
    console = Console(record=True, width=132, file=io.StringIO(), color_system="truecolor")
    console.print(picture(history))
    page = program.parent / "top.html"
    page.write_text(console.export_html(theme=MONOKAI, code_format=_TOP), encoding="utf-8")
    with _browser(1400, 1200) as browser:
        browser.get(page.as_uri())
        browser.find_element("tag name", "pre").screenshot(str(out))


def _watch(pid: int, seconds: float) -> History:
    history, end = History(), time.monotonic() + seconds
    reader: Reader | None = None
    while time.monotonic() < end:
        time.sleep(seconds / 50)
        try:
            process = Process(pid)
            reader = reader or Reader(process, find_layout(process), Threads(process))
            history.add(reader.take())
        except Refused as refusal:  # it has not started the allocator yet, or changes meanwhile
            history.refused = str(refusal)
    if history.last is None:
        raise Refused(history.refused)
    return history


def pictures(
    out: Annotated[Path, typer.Option("-o", help="the folder")] = places.ROOT / "docs",
    requests: Annotated[int, typer.Option(min=1, help="of each client, for the profile")] = 400_000,
    seconds: Annotated[float, typer.Option(min=0.5, help="to watch the server for top")] = 12.0,
) -> None:
    """Draws the pictures of docs that show ./near profile and ./near top."""
    try:
        with tempfile.TemporaryDirectory(prefix="near-pictures-") as folder:
            program = compiled(Path(folder))
            draw_profile(program, requests, out / "profile-page.png")
            draw_top(program, seconds, out / "top.png")
    except (Refused, OSError, subprocess.CalledProcessError) as error:
        print(f"near: {error}", file=sys.stderr)
        sys.exit(1)
