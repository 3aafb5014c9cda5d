#!/usr/bin/env python3
"""The life of a process: before main, fork, exec, vfork, exit hooks, dlopen, signals."""

import xml.etree.ElementTree as xml

from preload import API_LIBRARY, LIBRARY, PROGRAMS, ROUNDS, PreloadTest, count, main, run


class Life(PreloadTest):
    def test_fork_under_load_then_exec(self) -> None:
        self.same_three_times([PROGRAMS / "fork_exec"])

    def test_fork_handlers_that_allocate(self) -> None:
        self.same_three_times([PROGRAMS / "atfork"])

    def test_vfork_spawn_and_system(self) -> None:
        self.same_three_times([PROGRAMS / "vfork"])

    def test_thread_local_destructors_and_atexit(self) -> None:
        self.same_three_times([PROGRAMS / "exit_hooks"])

    def test_before_main(self) -> None:
        self.same_three_times([PROGRAMS / "before_main"])

    def test_signals(self) -> None:
        self.same_three_times([PROGRAMS / "signals"])

    def test_key_zero_is_the_programs(self) -> None:
        self.same_three_times([PROGRAMS / "keys"])

    def test_dlopen_a_hundred_times(self) -> None:
        """The library with the near_* names alone, in a program on the system's malloc."""
        command = [PROGRAMS / "dlopen", API_LIBRARY, PROGRAMS / "libplugin.so"]
        for _ in range(ROUNDS):
            result = run(command, preload=False)
            self.assert_good(result)
            self.assertEqual(result.out, b"100 rounds\n")
            count()

    def test_dlopen_of_the_overriding_library(self) -> None:
        result = run([PROGRAMS / "dlopen", LIBRARY, PROGRAMS / "libplugin.so"], preload=False)
        self.assert_good(result)
        count()

    def test_dlopen_under_preload(self) -> None:
        """Two copies of the allocator in a process, each with its own heap."""
        self.run_preloaded([PROGRAMS / "dlopen", API_LIBRARY, PROGRAMS / "libplugin.so"])

    def test_malloc_info_is_xml(self) -> None:
        for _ in range(ROUNDS):
            root = xml.fromstring(self.run_preloaded([PROGRAMS / "info"]).out)
            self.assertEqual(root.tag, "malloc")
            self.assertIn("version", root.attrib)
            self.assertGreater(len(list(root.iter())), 3)


if __name__ == "__main__":
    main()
