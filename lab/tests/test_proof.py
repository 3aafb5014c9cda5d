"""The malloc that serves a process is found by the linker's own rule."""

import re
import shutil
from pathlib import Path

import pytest

from nearlab import peers, places
from nearlab.measure import measure, proof

MAPPED = re.findall(r" (/.*\.so.*)", Path("/proc/self/maps").read_text())
LIBC = next(path for path in MAPPED if proof.allocator_name(path) == "glibc")


def test_libc_defines_malloc_and_text_does_not():
    assert proof.defines(LIBC) and not proof.defines(__file__) and not proof.defines("/nonexistent")


def test_a_program_that_only_uses_malloc_does_not_define_it():
    assert not proof.defines(str(places.bench_dir() / "idle"))


def test_a_symbol_that_nobody_has_is_not_found():
    assert not proof.defines(LIBC, "no_such_function") and proof.defines(LIBC, "printf")


@pytest.mark.parametrize(
    "path,name",
    [
        ("/a/libjemalloc.so.2", "jemalloc"),
        ("/a/libtcmalloc_minimal.so.4.5.10", "tcmalloc"),
        ("/a/libmimalloc.so.2.0", "mimalloc2"),
        ("/a/libmimalloc.so.3.4", "mimalloc3"),
        ("/a/libnearmalloc.so.0.2.0", "nearmalloc"),
        ("/a/libtbbmalloc_proxy.so.2.8", "tbb"),
        ("/a/libjemalloc5.3.1.so", "jemalloc5.3.1"),
        ("/a/libgoogle-tcmalloc.so", "google-tcmalloc"),
        ("/a/libsnmalloc.so", "snmalloc"),
        ("/a/librpmalloc.so", "rpmalloc"),
        ("/a/liblimit.so", "limit"),
        ("/a/libnalloc0.so", "nalloc0"),
        ("/a/libsupersocket.so", "supersocket"),
        ("/a/libc.so.6", "glibc"),
        ("/a/libc-2.31.so", "glibc"),
        ("/a/libcache.so.1", "libcache.so.1"),
    ],
)
def test_libraries_are_named(path, name):
    assert proof.allocator_name(path) == name


def test_a_design_is_named_as_the_registry_names_it():
    ours = [name for name in peers.NAMES if name not in peers.CORE and name != "tbb"]
    assert [proof.allocator_name(f"/a/lib{name}.so") for name in ours] == ours


def test_the_first_definition_wins():
    assert proof.provider(["/nonexistent", __file__, LIBC]) == LIBC
    assert proof.served_by([]) == "unknown"


@pytest.mark.parametrize("name", peers.known())
def test_a_preloaded_allocator_is_seen_to_serve(found, name):
    allocator = found[name]
    if not allocator.available:
        pytest.skip(allocator.missing)
    sample = measure.run_child(
        [places.bench_dir() / "idle"],
        preload=allocator.library,
        env=dict(allocator.environment),
    )
    assert sample.served_by == name
    said = sample.stdout.split('"malloc_from": "')[1].split('"')[0]
    assert proof.allocator_name(said) == name


def test_a_preload_that_is_no_allocator_is_not_believed(tmp_path):
    named_so = tmp_path / "libjemalloc.so.2"
    other = next(path for path in MAPPED if ".so" in path and not proof.defines(path))
    shutil.copy(other, named_so)
    assert measure.run_child([places.bench_dir() / "idle"], preload=named_so).served_by == "glibc"
