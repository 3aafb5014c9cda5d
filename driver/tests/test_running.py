"""`./near run`: what it builds, preloads and passes on."""

import os

import pytest

from neardriver import groups, paths, products, programs, running
from neardriver.running import Request

RELEASE = paths.tree("release")


@pytest.mark.parametrize(
    "request_,targets,libraries",
    [
        (Request(("ls",)), ("nearmalloc",), ["libnearmalloc.so"]),
        (Request(("ls",), design="hoard"), ("near_design_hoard_library",), ["designs/libhoard.so"]),
        (Request(("ls",), bind="saturate"), ("nearmalloc", "nearbind"),
         ["libnearmalloc.so", "designs/libnearbind.so"]),
        (Request(("ls",), design="scalloc", bind="file:/x"),
         ("near_design_scalloc_library", "nearbind"),
         ["designs/libscalloc.so", "designs/libnearbind.so"]),
        (Request(("ls",), design="numalloc", bind="interleave"),
         ("near_design_numalloc_library",), ["designs/libnumalloc.so"]),
    ],
)
def test_only_what_is_preloaded_is_built(request_, targets, libraries):
    assert request_.targets() == targets
    assert request_.libraries() == [RELEASE / name for name in libraries]
    running.check(request_)


def test_libraries_of_the_user_come_after_the_allocator_and_before_the_binding():
    words = Request(("ls",), bind="off").preload({"LD_PRELOAD": "mine.so"}).split(":")
    assert words == [f"{RELEASE}/libnearmalloc.so", "mine.so", f"{RELEASE}/designs/libnearbind.so"]
    assert Request(("ls",)).preload({"LD_PRELOAD": ""}) == f"{RELEASE}/libnearmalloc.so"


def test_variables_bind_and_print():
    given = {"NEARMALLOC_DESIGN_OPTIONS": "batch=bag"}
    assert Request(("ls",), stats=True).variables(given) == {"NEARMALLOC_STATS": "1"}
    assert Request(("ls",), bind="off").variables(given) == {"NEARBIND_OPTIONS": "binding=off"}
    numalloc = Request(("ls",), design="numalloc", bind="saturate")
    assert numalloc.variables(given) == {"NEARMALLOC_DESIGN_OPTIONS": "batch=bag,binding=saturate"}
    assert numalloc.variables({}) == {"NEARMALLOC_DESIGN_OPTIONS": "binding=saturate"}


@pytest.fixture
def started(monkeypatch):
    """Notes what is built, installed and started."""
    noted = []

    def note(kind):
        def noting(*words):
            noted.append((kind, *words))
            if kind in ("exec", "leaks"):
                raise SystemExit
        return noting

    monkeypatch.setattr(products, "build", note("build"))
    monkeypatch.setattr(groups, "need", note("group"))
    monkeypatch.setattr(programs, "tool", note("leaks"))
    monkeypatch.setattr(os, "execvp", note("exec"))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    return noted


def test_the_program_replaces_the_driver(started):
    with pytest.raises(SystemExit):
        running.run(Request(("ls", "-l"), stats=True))
    assert started == [
        ("build", "nearmalloc"),
        ("exec", "env", ["env", "NEARMALLOC_STATS=1", f"LD_PRELOAD={RELEASE}/libnearmalloc.so",
                         "ls", "-l"]),
    ]


def test_leaks_need_the_tools(started):
    with pytest.raises(SystemExit):
        running.run(Request(("ls",), leaks=True, leak_options=("--interval", "7")))
    assert started == [
        ("group", "tools"), ("build", "nearmalloc"),
        ("leaks", ["run", "--leaks", "--interval", "7", "--", "ls"], RELEASE / "libnearmalloc.so"),
    ]


def test_the_designs_are_those_of_the_list():
    assert len(running.designs()) == 13 and running.designs()[0] == "scalloc"
