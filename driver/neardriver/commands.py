"""The command line of `./near`: a table of commands. A command imports its own modules alone."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from neardriver import language
from neardriver.messages import Failure, Misuse, say

_NAME = "near"
_INTERRUPTED = 130


class _Verbatim(TyperCommand):
    """A command whose words, `--help` and `--` included, go to another program as they are."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]  # Typer's Context is private
        super().parse_args(ctx, [])
        ctx.args = list(args)
        return []


app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="nearmalloc's driver: installs what is missing, builds what is stale, runs everything.",
    epilog="Missing Debian packages are installed when you are root, and named when you are not.")

_USE, _LOOK, _MEASURE, _DEVELOP = "Use", "Look at memory", "Measure", "Develop"


def _show_version(asked: bool) -> None:
    if asked:
        from neardriver.version import version

        print(f"nearmalloc {version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True,
                                          help="Show the version and end.")] = False,
) -> None:
    pass


def _delegated(name: str, panel: str, text: str) -> None:
    """Adds a command of neardriver.delegating; `./near NAME --help` is the program's own help."""

    def command(ctx: typer.Context) -> None:
        from neardriver import delegating

        tools: dict[str, Callable[[Sequence[str]], None]] = {
            "demo": delegating.demo, "lab": delegating.lab, "manycore": delegating.manycore,
            "vm": delegating.vm, "profile": delegating.profile}
        if name in tools:
            tools[name](ctx.args)
        else:
            delegating.read_memory(name, ctx.args)

    app.command(name, cls=_Verbatim, help=text, rich_help_panel=panel)(command)


_delegated("demo", _USE, "Run real programs on the system's malloc and on nearmalloc; compare.")


@app.command(rich_help_panel=_USE, context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str] | None, typer.Argument(metavar="PROGRAM [ARGUMENT...]")] = None,
    design: Annotated[str, typer.Option(metavar="NAME", help="A published design.")] = "",
    bind: Annotated[str, typer.Option(
        metavar="POLICY", help="Bind threads to NUMA nodes: interleave, saturate, file:PATH, off "
        "(designs/numalloc/README.md).")] = "",
    stats: Annotated[bool, typer.Option("--stats", help="Print a summary at exit.")] = False,
    leaks: Annotated[bool, typer.Option(
        "--leaks", help="Report at exit the sampled blocks that the program can no longer reach, "
        "with stacks; status 23 if there are any.")] = False,
    interval: Annotated[str, typer.Option(
        metavar="BYTES", help="With --leaks: bytes between samples.")] = "",
    ignore: Annotated[list[str] | None, typer.Option(
        metavar="FUNCTION", help="With --leaks: no report of this function; may be repeated.")
    ] = None,
) -> None:
    """Run a program on nearmalloc or on a published design: ./near run -- PROGRAM ARGUMENT..."""
    from neardriver import running

    options = [*(["--interval", interval] if interval else []),
               *(word for function in ignore or () for word in ("--ignore", function))]
    running.run(running.Request(tuple(command or ()), design, bind, stats, leaks, tuple(options)))


_delegated("top", _LOOK, "Show live where the memory of running processes is.")
_delegated("core", _LOOK, "Show the same of a core file, or what an address was.")
_delegated("exporter", _LOOK, "Serve metrics of running processes to Prometheus.")
_delegated("profile", _LOOK, "Run a program under the sampling profiler; write one page. "
           "[bold]profile show[/], [bold]profile diff[/]: of profiles in files.")
_delegated("lab", _MEASURE, "Workloads, measurements, reports.")
_delegated("manycore", _MEASURE, "Workloads on up to 256 simulated processors.")
_delegated("vm", _MEASURE, "Cases and plans of the NUMA machine, a guest with several nodes.")


def _presets() -> list[str]:
    from neardriver.trees import TREES

    return list(TREES)


@app.command(rich_help_panel=_DEVELOP)
def build(
    preset: Annotated[str, typer.Argument(
        autocompletion=_presets, help="release, check, asan, ubsan, tsan, fuzz, clang, manycore, "
        "aarch64.")] = "release",
) -> None:
    """Build into build/PRESET: release (all products), or another tree with its tests."""
    from neardriver import products

    products.build_preset(preset)


def _test_names() -> list[str]:
    from neardriver.trees import LABELS

    return ["all", *LABELS]


@app.command(rich_help_panel=_DEVELOP)
def test(
    label: Annotated[str, typer.Argument(
        autocompletion=_test_names, show_default=False,
        help="A label: core, lint, lab, tools, driver, reclaim, designs, numa, numa-matrix, "
        "manycore, programs, soak; or all.")] = "default",
    tree: Annotated[str, typer.Option(metavar="PRESET", autocompletion=_presets,
                                      help="Only the tests of this build tree.")] = "",
    only: Annotated[str, typer.Option(metavar="PATTERN", help="Only tests whose names match.")]
    = "",
) -> None:
    """Build and run tests: the default tier, those of a label, or all but those of soak,
    numa-matrix and programs."""
    from neardriver import testing

    raise typer.Exit(testing.test(label, tree, only))


@app.command("help", rich_help_panel=_DEVELOP)
def help_(command: Annotated[str, typer.Argument(help="A command.")] = "") -> None:
    """Show this text, or the help of a command."""
    app([*([command] if command else []), "--help"], prog_name=_NAME, standalone_mode=False)


def main(words: list[str]) -> int:
    """The exit status of a command line."""
    language.fix()
    try:
        status = app(words, prog_name=_NAME, standalone_mode=False)
        return status if isinstance(status, int) else 0
    except TyperException as error:
        return _refuse(error, words)
    except Failure as failure:
        say(str(failure))
        return failure.status
    except (KeyboardInterrupt, typer.Abort):
        print(file=sys.stderr)
        return _INTERRUPTED
    finally:
        language.restore()


def _refuse(error: TyperException, words: list[str]) -> int:
    message = " ".join(error.format_message().split())
    if words:
        say(f"{message} (see ./near --help)" if message else "wrong use (see ./near --help)")
    return Misuse.status
