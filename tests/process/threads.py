#!/usr/bin/env python3
"""Forks, the allocator's own thread, cancellation and plugins: each a case of a small program."""

import sys

from preload import API_LIBRARY, LIBRARY, PROGRAMS, PreloadTest, count, main, run

TASKS = """
import os, threading, time
worker = threading.Thread(target=lambda: [bytearray(100000) for _ in range(10)])
worker.start()
worker.join()
end = time.monotonic() + 20
while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < end:
    time.sleep(0.01)
print(len(os.listdir("/proc/self/task")), "task")
"""


class Cases(PreloadTest):
    def run_case(self, program: str, name: str) -> None:
        result = self.run_preloaded([PROGRAMS / program, name])
        said = result.out.decode().strip()
        if said.startswith("skipped: "):
            self.skipTest(said.removeprefix("skipped: "))
        self.assertEqual(said, "ok", str(result))
        self.assertEqual(result.complaints, b"", str(result))


class Forks(Cases):
    def test_from_a_thread_that_never_allocated(self) -> None:
        self.run_case("forks", "from_a_thread_that_never_allocated")

    def test_before_the_first_allocation(self) -> None:
        self.run_case("forks", "before_the_first_allocation")

    def test_then_the_thread_ends(self) -> None:
        self.run_case("forks", "then_the_thread_ends")

    def test_against_stdio(self) -> None:
        self.run_case("forks", "against_stdio")

    def test_in_a_handler(self) -> None:
        self.run_case("forks", "in_a_handler")

    def test_in_a_handler_before_threads(self) -> None:
        self.run_case("forks", "in_a_handler_before_threads")

    def test_in_a_handler_among_threads(self) -> None:
        self.run_case("forks", "in_a_handler_among_threads")

    def test_nested(self) -> None:
        self.run_case("forks", "nested")

    def test_after_corruption(self) -> None:
        """The crash handler ends the process: nothing says that the allocator served it."""
        result = run([PROGRAMS / "forks", "after_corruption"])
        self.assert_good(result)
        self.assertEqual(result.out, b"ok\n", str(result))
        count()

    def test_with_handlers_that_were_there_first(self) -> None:
        result = run([PROGRAMS / "late_handlers", API_LIBRARY], preload=False)
        self.assert_good(result)
        self.assertEqual(result.out, b"ok\n")
        count()


class Helper(Cases):
    def test_comes_and_goes(self) -> None:
        self.run_case("helper", "comes_and_goes")

    def test_enters_a_namespace(self) -> None:
        self.run_case("helper", "enters_a_namespace")

    def test_threads_of_c11(self) -> None:
        self.run_case("helper", "threads_of_c11")

    def test_every_end_counts(self) -> None:
        self.run_case("helper", "every_end_counts")

    def test_has_manners(self) -> None:
        self.run_case("helper", "has_manners")

    def test_gives_up_capabilities(self) -> None:
        self.run_case("helper", "gives_up_capabilities")

    def test_user_changes(self) -> None:
        self.run_case("helper", "user_changes")

    def test_main_leaves_first(self) -> None:
        self.run_case("helper", "main_leaves_first")

    def test_sandbox(self) -> None:
        self.run_case("helper", "sandbox")

    def test_is_switched_off(self) -> None:
        self.run_case("helper", "is_switched_off")

    def test_is_switched_on(self) -> None:
        self.run_case("helper", "is_switched_on")

    def test_takes_no_place(self) -> None:
        self.run_case("helper", "takes_no_place")

    def test_all_at_once(self) -> None:
        self.run_case("helper", "all_at_once")

    def test_created_before_the_constructor(self) -> None:
        result = self.run_preloaded([PROGRAMS / "early_thread"])
        self.assertEqual(result.out, b"ok\n", str(result))

    def test_python_is_alone_after_its_thread(self) -> None:
        """Python warns of a fork in a process with threads."""
        result = self.run_preloaded([sys.executable, "-c", TASKS], extra={"PYTHONMALLOC": "malloc"})
        self.assertEqual(result.out, b"1 task\n")


class Others(Cases):
    def test_no_cancellation_point(self) -> None:
        result = self.run_preloaded([PROGRAMS / "cancel", API_LIBRARY],
                                    extra={"NEARMALLOC_INVALID": "report"})
        self.assertEqual(result.out, b"ok\n", str(result))

    def test_an_archive_in_a_plugin_that_is_unloaded(self) -> None:
        for preload in (False, True):
            result = run([PROGRAMS / "unload", PROGRAMS / "libarchive_plugin.so"], preload=preload)
            self.assert_good(result)
            self.assertEqual(result.out, b"ok\n", f"{LIBRARY}: {preload}")
            count()


if __name__ == "__main__":
    main()
