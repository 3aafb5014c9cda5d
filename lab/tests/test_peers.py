"""Allocators are found or reported missing; crates are built once, and a failure is recorded."""

import json
import shutil
import subprocess

import pytest

import processes
from nearlab import peers, places
from nearlab.measure import measure
from nearlab.peers import crates, debian, registry
from nearlab.plan import chosen

CONFORMS = r"""
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define EXPECT(c) \
  do { if (!(c)) { fprintf(stderr, "%d: %s\n", __LINE__, #c); _exit(1); } } while (0)
static void* work(void* blocks) {
  void** mine = blocks;
  for (int i = 0; i < 1000; ++i) { free(mine[i]); mine[i] = malloc((size_t)i + 1); }
  return NULL;
}
static void* churn(void* nothing) {
  for (int i = 0; i < 50; ++i) free(memset(malloc((size_t)i * 1000 + 1), 1, (size_t)i * 1000 + 1));
  return nothing;
}
int main(void) {
  volatile size_t half = SIZE_MAX / 2 + 2;
  int mark;
  EXPECT(calloc(half, 2) == NULL);
  errno = 0;
  EXPECT(reallocarray(NULL, half, 2) == NULL && errno == ENOMEM);
  EXPECT(malloc_usable_size(NULL) == 0);
  for (size_t alignment = 8; alignment <= 1 << 15; alignment *= 2) {
    void* block = NULL;
    EXPECT(posix_memalign(&block, alignment, 100) == 0 && (uintptr_t)block % alignment == 0);
    EXPECT(malloc_usable_size(block) >= 100);
    free(block);
    EXPECT((uintptr_t)(block = aligned_alloc(alignment, alignment)) % alignment == 0 && block);
    free(block);
    EXPECT((uintptr_t)(block = memalign(alignment, 3)) % alignment == 0 && block);
    free(block);
  }
  void* unchanged = &mark;
  EXPECT(posix_memalign(&unchanged, 24, 8) == EINVAL && unchanged == (void*)&mark);
  EXPECT(posix_memalign(&unchanged, 1, 8) == EINVAL);
  void* page = valloc(1);
  EXPECT(page && (uintptr_t)page % (size_t)getpagesize() == 0);
  free(page);
  page = pvalloc(1);
  EXPECT(page && malloc_usable_size(page) >= (size_t)getpagesize());
  free(page);
  unsigned char* grown = NULL;
  for (size_t size = 1; size < 3000000; size = size * 3 / 2 + 1) {
    grown = realloc(grown, size);
    EXPECT(grown);
    grown[size - 1] = (unsigned char)size;
    EXPECT(size == 1 || grown[0] == 1);
  }
  grown = realloc(grown, 10);
  EXPECT(grown && grown[0] == 1);
  free(grown);
  void* gone = realloc(malloc(5), 0);
  free(gone);
  for (size_t n = 1; n < 100000; n = n * 5 / 2) {
    char* zero = calloc(n, 3);
    for (size_t i = 0; i < 3 * n; ++i) EXPECT(zero[i] == 0);
    memset(zero, 1, 3 * n);
    free(zero);
  }
  static void* blocks[4][1000];
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 1000; ++i) EXPECT((blocks[t][i] = malloc((size_t)i)));
  pthread_t threads[4];
  for (int t = 0; t < 4; ++t) EXPECT(pthread_create(&threads[t], NULL, work, blocks[t]) == 0);
  for (int t = 0; t < 4; ++t) pthread_join(threads[t], NULL);
  for (int t = 0; t < 400; ++t) {
    EXPECT(pthread_create(&threads[0], NULL, churn, NULL) == 0);
    pthread_join(threads[0], NULL);
  }
  const pid_t child = fork();
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 1000; ++i) free(blocks[t][i]);
  free(malloc(1 << 20));
  if (child == 0) _exit(0);
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  return 0;
}
"""
SOURCES = {name: entry.source for name, entry in registry._ENTRIES.items()}
CRATES = [name for name, source in SOURCES.items() if isinstance(source, crates.Crate)]
DEBIAN = [name for name, source in SOURCES.items() if isinstance(source, debian.DebianPackage)]


def compiled(folder, name, source):
    """Compiles a program that neither uses malloc nor drops it."""
    path = folder / name
    path.write_text(source)
    compiler = "g++" if name.endswith(".cc") else "cc"
    built = path.with_suffix("")
    subprocess.run(
        [compiler, "-D_GNU_SOURCE", "-O0", "-fno-builtin", path, "-o", built, "-pthread"],
        check=True,
    )
    return built


@pytest.fixture(scope="module")
def conforms(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("conforms"), "conforms.c", CONFORMS)


TRUE_TOOLS = crates.get_tools


@pytest.fixture
def crate(tmp_path, monkeypatch):
    """A crate outside the repository, and a place to build it in."""
    monkeypatch.setattr(places, "crates_dir", lambda: tmp_path / "crates")
    monkeypatch.setattr(places, "peers_build", lambda: tmp_path / "build")
    monkeypatch.setattr(places, "logs_dir", lambda: tmp_path / "logs")
    monkeypatch.setattr(crates, "get_tools", lambda: None)
    folder = tmp_path / "crates" / "tiny"
    folder.mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[dependencies]\ntiny-sys = { features = ["fast"] }\n')
    (folder / "Cargo.lock").write_text('[[package]]\nname = "tiny-sys"\nversion = "1.2.3"\n')
    return crates.Crate("tiny", "tiny-sys")


@pytest.fixture
def cargo(tmp_path, monkeypatch):
    """Puts a script in cargo's place, which logs its calls."""
    calls = tmp_path / "calls"

    def install(script):
        fake = tmp_path / "bin" / "cargo"
        fake.parent.mkdir(exist_ok=True)
        version = '[ "$1" = --version ] && echo cargo 9 && exit'
        fake.write_text(f"#!/bin/sh\n{version}\necho >>{calls}\n{script}\n")
        fake.chmod(0o755)
        monkeypatch.setattr(crates, "find_cargo", lambda: str(fake))
        return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0

    return install


BUILDS = 'while [ "$1" != --target-dir ]; do shift; done; mkdir -p $2/release; '
BUILDS += "echo library >$2/release/libpeer.so"


@pytest.mark.parametrize("name", DEBIAN)
def test_what_debian_installed_is_found_with_its_version(found, name):
    source = SOURCES[name]
    installed = debian.package_version(source.package)
    if not installed:
        assert found[name].missing == f"not found: apt-get install {source.package}"
        pytest.skip(found[name].missing)
    assert found[name].available and found[name].flags == installed
    assert found[name].version.split("+")[0] in installed


def test_an_unknown_name_is_refused():
    with pytest.raises(KeyError, match="unknown allocator bumpmalloc"):
        peers.find("bumpmalloc")


def test_designs_are_listed_only_when_they_are_built(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_LIBRARY", str(tmp_path / "libnearmalloc.so"))
    assert "nalloc0" in peers.NAMES and "nalloc0" not in peers.known()
    assert peers.find("nalloc0").missing.startswith("not found: build it")
    (tmp_path / "designs").mkdir()
    shutil.copy(places.count_library(), tmp_path / "designs" / "libnalloc0.so")
    assert "nalloc0" in peers.known() and peers.find("nalloc0").group == "design"


def test_a_design_may_have_switches_in_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("NEAR_LIBRARY", str(tmp_path / "libnearmalloc.so"))
    (tmp_path / "designs").mkdir()
    shutil.copy(places.count_library(), tmp_path / "designs" / "libscalloc.so")
    found = peers.find("scalloc+madvise:off+reuse_threshold:100")
    assert found.available and found.label == "scalloc madvise=off,reuse_threshold=100"
    options = "madvise=off,reuse_threshold=100"
    assert found.environment == (("NEARMALLOC_DESIGN_OPTIONS", options),)
    for name in ("nobody+x:y", "scalloc+", "scalloc+x", "scalloc+x:", "scalloc+x:y+"):
        assert not peers.is_name(name)


def test_a_switch_that_the_design_has_not_is_a_reason():
    assert peers.find("a2alloc+free:walk").available
    assert peers.find("a2alloc+colour:red").missing.endswith("there is no switch 'colour'")
    assert "free is ignored: 'run' is not one of" in peers.find("a2alloc+free:run").missing


def test_any_allocator_has_switches_which_are_variables_if_it_is_no_design():
    found = peers.find("glibc+MALLOC_ARENA_MAX:1+MALLOC_TOP_PAD_:/a/b")
    assert found.environment == (("MALLOC_ARENA_MAX", "1"), ("MALLOC_TOP_PAD_", "/a/b"))
    assert found.available and found.name == "glibc+MALLOC_ARENA_MAX:1+MALLOC_TOP_PAD_:/a/b"
    assert not peers.is_name("nobody+X:1") and peers.is_name("mimalloc3+MIMALLOC_VERBOSE:1")
    mine = f"mine+SOME:thing={places.nearmalloc_library()}"
    assert chosen.problem([mine, "glibc"]) is None
    (own,) = chosen.find([mine])
    assert own.environment == (("SOME", "thing"),) and own.name == "mine+SOME:thing"


def test_the_table_has_a_row_for_everyone_and_a_reason_for_who_is_missing():
    rows = [one.to_json() for one in peers.find_all()]
    assert [row["name"] for row in rows] == list(peers.known())
    assert all(row["library"] or row.get("missing") or row["name"] == "glibc" for row in rows)


def test_a_library_that_does_not_work_is_missing_with_its_version_unknown(tmp_path, monkeypatch):
    (tmp_path / "libnearmalloc.so").write_text("no library")
    monkeypatch.setenv("NEAR_LIBRARY", str(tmp_path / "libnearmalloc.so"))
    assert "does not work when preloaded" in peers.find("nearmalloc").missing


def test_a_crate_is_built_once_and_again_when_it_changes(crate, cargo):
    calls = cargo(BUILDS)
    assert crate.find() is None and crate.hint() == "not built: cargo builds it from tiny-sys"
    crate.build()
    crate.build()
    assert calls() == 1 and crate.find() == crate.library
    assert crate.flags().startswith("tiny-sys 1.2.3; features default fast")
    (crate.folder / "new.rs").write_text("fn f() {}")
    assert crate.find() is None
    crate.build()
    assert calls() == 2 and crate.find() == crate.library


def test_a_failure_is_reported_and_tried_again(crate, cargo):
    calls = cargo("echo '   Compiling tiny'; echo 'error[E1]: no such thing'; echo bye; exit 101")
    crate.build()
    assert crate.find() is None
    assert crate.hint() == "cargo failed: error[E1]: no such thing"
    crate.build()
    assert calls() == 2
    cargo(BUILDS)
    crate.build()
    assert crate.find() == crate.library


def test_a_cargo_that_hangs_is_ended_with_all_it_started(crate, cargo, tmp_path, monkeypatch):
    monkeypatch.setattr(crates, "_TIMEOUT_S", 0.5)
    pid = tmp_path / "pid"
    cargo(f"sleep 300 & echo $! >{pid}; wait")
    crate.build()
    assert crate.hint() == "cargo did not end within 0.5 s"
    started = pid.read_text().strip() if pid.exists() else ""
    assert not started or processes.ends(int(started))  # on a loaded machine it may not start


@pytest.mark.parametrize(
    "script,why",
    [("true", "cargo built no library"), ("exit 3", "cargo failed: no message")],
)
def test_a_cargo_that_does_nothing_is_no_success(crate, cargo, script, why):
    cargo(script)
    crate.build()
    assert crate.find() is None and crate.hint() == why


def test_without_cargo_the_crate_is_missing(crate, monkeypatch):
    monkeypatch.setattr(crates, "find_cargo", lambda: None)
    crate.build()
    assert crate.hint() == "cargo is missing"


def test_a_bare_machine_gets_make_and_the_newer_cargo(monkeypatch):
    asked = []
    monkeypatch.setattr(crates.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(
        crates.installing, "apt_install", lambda names: asked.extend(names) or names == ["make"]
    )
    TRUE_TOOLS()
    assert asked == ["make", "cargo-web", "cargo"]


def test_a_damaged_record_is_no_record(crate, cargo):
    cargo(BUILDS)
    crate.build()
    crate.record_file.write_text(json.dumps({"hash": crate.hash()})[:-5])
    assert crate.find() is None


@pytest.mark.parametrize("name", CRATES)
def test_a_crate_is_locked_and_says_what_is_inside(name):
    source = SOURCES[name]
    version = source._locked_crate().removeprefix(source.dependency).strip()
    manifest = (source.folder / "Cargo.toml").read_text()
    assert f'"={version.split("+")[0]}"' in manifest and source._features()


@pytest.mark.parametrize("name", ["glibc", *CRATES, "tbb"])
def test_a_peer_conforms(found, conforms, name):
    if not found[name].available:
        pytest.skip(found[name].missing)
    sample = measure.run_child(
        [conforms], preload=found[name].library, env=dict(found[name].environment), timeout=60
    )
    assert sample.failure() is None, sample.stderr
    assert sample.served_by == name
    # 400 threads that left their heaps behind would hold twice as much.
    assert sample.peak_rss_kib < 64 * 1024


def test_unknown_allocators_are_named():
    with pytest.raises(KeyError, match="unknown allocator"):
        peers.find("bumpmalloc")


def test_versions_are_what_the_libraries_say(found):
    expected = {"mimalloc3": "3.", "mimalloc2": "2.", "jemalloc": "5.", "tcmalloc": "2."}
    for name, start in expected.items():
        assert found[name].missing or found[name].version.startswith(start)
