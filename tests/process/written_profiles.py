#!/usr/bin/env python3
"""Profiles that are whole and right in unusual processes: with another sign in its numbers, code in
a file with a long path, and a child of fork whose parent was writing a profile.
"""

import json
import shutil
import struct
import sys

from pprof import Pprof
from preload import PROGRAMS, count, main, run
from profiled import ProfiledTest

# Uses the locale that its argument names, whose decimal sign has these bytes.
WITH_LOCALE = """
import ctypes, locale, sys
locale.setlocale(locale.LC_NUMERIC, "tested")
said = ctypes.create_string_buffer(20)
ctypes.CDLL(None).snprintf(said, 20, b"%.1f", ctypes.c_double(0.5))
assert said.value == b"0" + bytes.fromhex(sys.argv[1]) + b"5", said.value
kept = [bytes(700 + i % 5000) for i in range(3000)]
"""
LOADS = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
kept = [bytes(2000) for _ in range(1000)]
"""
# A handler in another thread opens a pipe that has no reader, to write the profile, when the main
# thread forks.
FORKS = """
import os, signal, sys, threading, time
os.mkfifo(f"{sys.argv[1]}/{os.getpid()}")
kept = [bytes(2000) for _ in range(1000)]
other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
other.start()
signal.pthread_kill(other.ident, 10)
time.sleep(0.3)
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(child, flush=True)
os._exit(0)
"""


def numeric(sign: bytes) -> bytes:
    """LC_NUMERIC of a compiled locale of glibc: the decimal sign, no separator of thousands, both
    as wide characters too, and the name of the encoding."""
    out = struct.pack("<2I", 0x20031115 ^ 1, 6)
    values = [sign + b"\0", b"\0", b"\0", struct.pack("<I", ord(sign.decode())),
              struct.pack("<I", 0), b"UTF-8\0"]
    texts, places = b"", []
    for number, value in enumerate(values):
        texts += bytes(-len(texts) % 4 if number in (3, 4) else 0)
        places.append(len(out) + 4 * len(values) + len(texts))
        texts += value
    return out + struct.pack("<6I", *places) + texts


class WrittenProfiles(ProfiledTest):
    def test_numbers_have_points_in_every_locale(self) -> None:
        (self.folder / "tested").mkdir()
        for sign in (",", "\u066b"):
            (self.folder / "tested" / "LC_NUMERIC").write_bytes(numeric(sign.encode()))
            extra = self.options("json") | {"LOCPATH": str(self.folder)}
            command = [sys.executable, "-c", WITH_LOCALE, sign.encode().hex()]
            self.assert_good(run(command, extra=extra))
            found = json.loads((self.folder / "profile").read_bytes())
            blocks = [site["allocated"]["blocks"] for site in found["sites"]]
            self.assertTrue(any(each % 1 for each in blocks), blocks)
            count()

    def test_a_long_path_leaves_all_strings_their_numbers(self) -> None:
        place = self.folder.joinpath(*["long" * 50] * 10)
        place.mkdir(parents=True)
        path = shutil.copy(PROGRAMS / "libdeepbind_plugin.so", place / "long.so")
        extra = self.options("pprof")
        self.assert_good(run([sys.executable, "-c", LOADS, path], extra=extra))
        found = Pprof((self.folder / "profile").read_bytes())
        files = [found.strings[mapping[5]] for mapping in found.mappings]
        self.assertIn(str(path), files)
        for mapping in found.mappings:
            self.assertRegex(found.strings[mapping[6]], r"^([0-9a-f]{2})*$")
        self.assertEqual(len(found.strings), max(mapping[6] for mapping in found.mappings) + 1)
        count()

    def test_a_child_writes_though_its_parent_was_writing(self) -> None:
        extra = self.options("json", "%p") | {"NEARMALLOC_PROFILE_SIGNAL": "10"}
        result = run([sys.executable, "-c", FORKS, self.folder], extra=extra)
        self.assert_good(result)
        child = int(result.out)
        self.assertNotIn(b"no profile", result.err)
        self.assertEqual(json.loads((self.folder / str(child)).read_bytes())["pid"], child)
        count()


if __name__ == "__main__":
    main()
