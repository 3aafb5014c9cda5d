#!/usr/bin/env python3
"""Blocks of several allocators in one process: RTLD_DEEPBIND, the near_* names alone, PHP."""

import tempfile
from pathlib import Path

from preload import PROGRAMS, PreloadTest, count, main, program, run

DEEPBIND = PROGRAMS / "deepbind"
PLUGIN = PROGRAMS / "libdeepbind_plugin.so"
KEEP = {"NEARMALLOC_DEEPBIND": "keep"}
PHP = """<?php
$lines = array_map(fn($i) => str_repeat(strrev("line $i"), $i % 50), range(1, 3000));
$text = json_encode($lines);
preg_match_all('/enil/', $text, $found);
usort($lines, fn($a, $b) => strlen($a) <=> strlen($b) ?: strcmp($a, $b));
echo strlen($text), ' ', count($found[0]), ' ', md5(implode(',', $lines)), "\\n";
echo count(get_loaded_extensions()) > 0 ? "extensions\\n" : "";
"""


class Interposed(PreloadTest):
    def test_a_plugin_opened_with_deepbind_has_the_programs_malloc(self) -> None:
        self.same_three_times([DEEPBIND, PLUGIN, "exchange"])

    def test_dlopen_searches_the_runpath_of_its_caller(self) -> None:
        self.same_three_times([DEEPBIND, PLUGIN, PROGRAMS / "libopener.so"])
        self.same_three_times([DEEPBIND, PLUGIN, PROGRAMS / "libopener.so"], extra=KEEP)

    def test_where_the_flag_is_kept_foreign_blocks_go_home(self) -> None:
        self.same_three_times([DEEPBIND, PLUGIN, "take"], extra=KEEP)

    def test_a_block_above_the_stack_is_no_part_of_it(self) -> None:
        for where in ("thread", "coroutine"):
            with self.subTest(where):
                result = self.run_preloaded([DEEPBIND, PLUGIN, where], extra=KEEP)
                if result.out.startswith(b"skipped"):
                    self.skipTest(result.out.decode().strip())
                self.assertEqual(result.out, b"freed\n")

    def test_the_near_names_alone_know_the_programs_malloc(self) -> None:
        result = run([PROGRAMS / "api_user"], preload=False)
        self.assert_good(result)
        self.assertEqual(result.out, b"all went home\n")
        count()

    def test_php(self) -> None:
        """It opens its extensions with RTLD_DEEPBIND."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script.php"
            script.write_text(PHP, encoding="utf-8")
            for own_malloc in ("1", "0"):
                with self.subTest(USE_ZEND_ALLOC=own_malloc):
                    self.same_three_times([program("php"), script],
                                          extra={"USE_ZEND_ALLOC": own_malloc})


if __name__ == "__main__":
    main()
