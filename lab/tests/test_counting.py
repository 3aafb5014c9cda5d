"""The counter counts a program's calls under any allocator, and loses none."""

import pytest

from nearlab import places
from nearlab.measure import counting, measure, proof
from test_peers import compiled

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char** argv) {
  const int rounds = atoi(argv[1]);
  if (strcmp(argv[2], "compute") == 0) {
    volatile double sum = 0;
    for (long i = 0; i < rounds; ++i) sum += 1.0 / (double)(i + 1);
    return 0;
  }
  if (strcmp(argv[2], "fork") == 0 && fork() > 0) wait(NULL);
  for (int i = 0; i < rounds; ++i) {
    void* volatile block = malloc(10);
    block = realloc(block, 20);
    free(block);
    free(calloc(3, 5));
    void* aligned = NULL;
    if (posix_memalign(&aligned, 64, 7) != 0) return 1;
    free(aligned);
    free(NULL);
  }
  if (strcmp(argv[2], "crash") == 0) abort();
  _exit(0);
}
"""
OPERATORS = r"""
#include <new>
struct alignas(64) Wide { char bytes[64]; };
int main(int argc, char** argv) {
  const int rounds = argc == 2 ? 300 : 100;
  for (int i = 0; i < rounds; ++i) {
    delete new char;
    delete[] new char[3];
    delete new Wide;
    operator delete(operator new(8, std::nothrow), std::nothrow);
  }
  try {
    static_cast<void>(::operator new(static_cast<std::size_t>(argc) << 62));
    return 1;
  } catch (const std::bad_alloc&) {
  }
  delete new char;
}
"""
# The calls in one round of PROGRAM.
ROUND = {"malloc": 1, "calloc": 1, "realloc": 1, "aligned": 1, "free": 3, "free_null": 1}
ROUND_BYTES = 10 + 20 + 15 + 7


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("counted"), "program.c", PROGRAM)


def usable(found, name):
    if not found[name].available:
        pytest.skip(found[name].missing)
    return found[name]


@pytest.mark.parametrize("name", ["glibc", "nearmalloc", "mimalloc3", "google-tcmalloc", "tbb"])
@pytest.mark.parametrize("how,times", [("exit", 1), ("fork", 2)])
def test_counts_are_exact(found, program, name, how, times):
    counted = counting.count([program, "1000", how], usable(found, name))
    none = counting.count([program, "0", how], usable(found, name))
    assert counted.failure is None
    for kind, each in ROUND.items():
        done = getattr(counted.calls, kind) - getattr(none.calls, kind)
        assert done == 1000 * each * times, kind
    assert counted.calls.bytes - none.calls.bytes == 1000 * ROUND_BYTES * times


def test_glibc_adds_no_call_of_its_own(found, program):
    calls = counting.count([program, "1000", "exit"], found["glibc"]).calls
    assert calls.total == 1000 * sum(ROUND.values()) and calls.processes == 1


def test_a_crash_loses_nothing(found, program):
    counted = counting.count([program, "500", "crash"], found["glibc"])
    assert counted.failure == "ended by SIGABRT" and counted.calls.malloc == 500


def test_programs_that_are_executed_add_to_the_same_counts(found, program):
    script = f"{program} 100 exit; {program} 100 exit"
    calls = counting.count(["sh", "-c", script], found["glibc"]).calls
    alone = counting.count(["sh", "-c", "true; true"], found["glibc"]).calls
    assert calls.processes == alone.processes + 2
    assert calls.aligned - alone.aligned == 200


@pytest.mark.parametrize("name", ["glibc", "nearmalloc", "tcmalloc"])
def test_operators_count_once_and_exceptions_pass(found, tmp_path, name):
    cxx = compiled(tmp_path, "operators.cc", OPERATORS)
    few = counting.count([cxx], usable(found, name))
    many = counting.count([cxx, "more"], found[name])
    assert few.failure is None and many.failure is None
    assert many.calls.malloc - few.calls.malloc == 200 * 3
    assert many.calls.aligned - few.calls.aligned == 200
    assert many.calls.free - few.calls.free == 200 * 4


@pytest.mark.parametrize("name", ["glibc", "nearmalloc"])
def test_the_allocator_behind_the_counter_is_named(found, name):
    libraries = [path for path in (places.count_library(), found[name].library) if path]
    sample = measure.run_child([places.bench_dir() / "idle"], preload=libraries)
    assert sample.served_by == name
    assert proof.defines(str(places.count_library()))


def test_a_counter_that_is_not_loaded_is_a_failure(found):
    static = counting.count(["sh", "-c", "unset LAB_COUNT_FILE; exec true"], found["glibc"])
    assert static.failure is None  # the shell was counted
    counted = counting.count(["env", "true"], found["glibc"], env={"LAB_COUNT_FILE": "x"})
    assert counted.failure is None  # the reader's own file takes precedence
    calls = counting.Calls.parse(bytes(2048))
    assert counting._failure(calls, counted.sample, found["glibc"]).endswith("not loaded")


def test_the_share_of_a_busy_loop_is_high_and_of_a_computing_one_low(found, program):
    busy = counting.count([program, "300000", "exit"], found["glibc"])
    idle = counting.count([program, "100000000", "compute"], found["glibc"])
    assert busy.malloc_share > 0.2
    assert idle.malloc_share < 0.01


def test_a_run_without_a_sample_has_no_time_in_malloc():
    assert counting.Calls.parse(bytes(2048)).ns_in_malloc == 0
