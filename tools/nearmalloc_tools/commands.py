"""The command line: `nearmalloc top|core|exporter|profile|run`.

Invariant: this module imports nothing but Typer and the standard library before a command runs, so
that help and completion are quick. Options are declared as defaults of parameters, not by
Annotated: the Typer of Debian 12 knows no other way.
"""

# ruff: noqa: B008

import sys
from pathlib import Path
from typing import Any

import typer
import typer.core

from nearmalloc_tools import __version__
from nearmalloc_tools.errors import FAILED, MISUSE, Misuse, Refused, program, say

# Typer names only one of the errors of the parser that it is made of.
_ParserError: Any = typer.BadParameter.__base__
_INTERRUPTED = 130
# The words behind the first one that is no option are the program's own.
_PROGRAM = {"allow_interspersed_args": False}

app = typer.Typer(
    help="Tools for programs that run on nearmalloc.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class _ProfileGroup(typer.core.TyperGroup):
    """`profile` with anything but the name of a subcommand is `profile run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_completion = ctx.resilient_parsing and not args
        if not is_completion and args[:1] != ["--help"] and (args or [""])[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


_profile = typer.Typer(
    cls=_ProfileGroup,
    help="Writes a page about the memory of a program.\n\n`profile PROGRAM` is short for "
    "`profile run PROGRAM`.",
    rich_markup_mode=None,
)
app.add_typer(_profile, name="profile")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"nearmalloc {__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
)


@app.callback()
def _options(version: bool = _VERSION) -> None:
    pass


_TARGETS = typer.Argument(..., metavar="PID|NAME...", help="processes, by number or by name")
_COMMAND = typer.Argument(..., metavar="PROGRAM [ARGUMENT...]")
_PAGE = typer.Option("near-profile.html", help="the page")
_OPEN = typer.Option(
    None,
    "--open/--no-open",
    help="open the page in a browser; without either, it is opened if stdout is a terminal of a "
    "graphical session, but not for root, by SSH, or if CI is set",
    show_default=False,
)


@app.command()
def top(
    targets: list[str] = _TARGETS,
    once: bool = typer.Option(False, "--once", help="print one picture and end"),
    as_json: bool = typer.Option(False, "--json", help="with --once: as JSON"),
    interval: float = typer.Option(1.0, min=0.1, help="seconds between two pictures"),
) -> None:
    """Shows where the memory of processes is. They run on meanwhile."""
    from nearmalloc_tools.top import command

    command.top(targets, once, as_json, interval)


@app.command()
def core(
    file: Path = typer.Argument(..., help="the core file"),
    block: list[str] = typer.Option([], metavar="ADDRESS", help="say what is there"),
    span: list[str] = typer.Option([], metavar="ADDRESS", help="say which span is there"),
    heaps: bool = typer.Option(False, "--heaps", help="list all heaps"),
    events: bool = typer.Option(False, "--events", help="list the rare events"),
) -> None:
    """Shows where the memory of a dead process was, by its core file.

    With an option, it shows only what the option asks for.
    """
    from nearmalloc_tools.debugger import command

    command.core(file, block, span, heaps, events)


@app.command()
def exporter(
    targets: list[str] = _TARGETS,
    port: int = typer.Option(9464, min=0, max=65535, help="0: any"),
    address: str = typer.Option("127.0.0.1", help="where to listen"),
    once: bool = typer.Option(False, "--once", help="print the metrics and end"),
) -> None:
    """Serves metrics of processes to Prometheus. They run on meanwhile.

    A name means all processes that have it at the time of a scrape.
    """
    from nearmalloc_tools.exporter import command

    command.exporter(targets, port, address, once)


@app.command(context_settings=_PROGRAM)
def run(
    command: list[str] = _COMMAND,
    stats: bool = typer.Option(False, "--stats", help="print a summary at exit"),
    leaks: bool = typer.Option(
        False, "--leaks", help="report at exit what it can no longer reach; status 23 if it leaks"
    ),
    interval: int = typer.Option(
        None,
        min=1,
        max=10**9,
        help="with --leaks: bytes between two samples, on average (32768)",
        show_default=False,
    ),
    ignore: list[str] = typer.Option(
        [], metavar="TEXT", help="with --leaks: none with this text in a function's name"
    ),
) -> int:
    """Runs a program on nearmalloc."""
    from nearmalloc_tools.run import run

    return run(command, stats, leaks, interval, ignore)


@app.command(context_settings=_PROGRAM)
def leaks(
    command: list[str] = _COMMAND,
    interval: int = typer.Option(
        32768, min=1, max=10**9, help="bytes between two samples, on average"
    ),
    ignore: list[str] = typer.Option(
        [], metavar="TEXT", help="no leaks with this text in a function's name"
    ),
) -> int:
    """Reports at a program's exit the memory that leaked.

    These are sampled blocks that the program can no longer reach. `run --leaks` is the same.
    """
    from nearmalloc_tools.run import run

    return run(command, False, True, interval, ignore)


@_profile.command("run", context_settings=_PROGRAM)
def profile_run(
    command: list[str] = _COMMAND,
    out: Path = _PAGE,
    interval: int = typer.Option(
        524288, min=1, max=10**9, help="bytes between two samples, on average"
    ),
    leaks: bool = typer.Option(True, help="look for leaks when a process ends by exit"),
    open_page: bool = _OPEN,
) -> int:
    """Runs a program under the profiler, and writes a page.

    The page says which code allocated what is live, wasted, or freed by other threads. If the
    program has several processes, the page is about the process that allocated most.
    """
    from nearmalloc_tools.profile.command import profile

    return profile(command, out, interval, leaks, open_page)


@_profile.command("show")
def profile_show(
    file: Path = typer.Argument(..., help="a profile in JSON, or one that was kept"),
    out: Path = _PAGE,
    open_page: bool = _OPEN,
) -> None:
    """Writes the page of a profile that exists.

    A process writes a profile by near_profile_write, on a signal, or at exit, or keeps one while it
    runs.
    """
    from nearmalloc_tools.profile.show import show

    show(file, out, open_page)


@_profile.command("diff")
def profile_diff(
    before: Path = typer.Argument(..., help="a profile in JSON, of the earlier moment"),
    after: Path = typer.Argument(..., help="one of the later moment"),
    out: Path = typer.Option("near-diff.html", help="the page"),
) -> None:
    """Compares two profiles of a program.

    It prints which sites hold more or less than before, and writes a page about that.
    """
    from nearmalloc_tools.profile.diff import diff

    diff(before, after, out)


def _wrong_use(error: Any) -> str:
    """The parser's error in one line, with the command whose help says more."""
    text = " ".join(error.format_message().split()).rstrip(".")
    command = error.ctx.command_path if error.ctx else program()
    return f"{text[:1].lower()}{text[1:]} (see {command} --help)"


def main() -> None:
    """Runs the command of the command line, and ends this program with its status."""
    try:
        status = app(prog_name=program(), standalone_mode=False)
    except _ParserError as error:
        say(_wrong_use(error))
        status = MISUSE
    except Misuse as misuse:
        say(str(misuse))
        status = MISUSE
    except (Refused, OSError) as refusal:
        say(str(refusal))
        status = FAILED
    except (typer.Abort, KeyboardInterrupt):
        status = _INTERRUPTED
    sys.exit(status)
