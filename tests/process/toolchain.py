#!/usr/bin/env python3
"""git and gcc: histories and object files made under nearmalloc are those made without it."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from preload import ROUNDS, PreloadTest, count, main, program, run

FILES = 80
COMMITS = 8
WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
       for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"), ("DATE", "1700000000 +0000"))}
WHO |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

SOURCE = r"""
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Fold { static constexpr long value = N + Fold<N - 1>::value; };
template <> struct Fold<0> { static constexpr long value = 0; };

struct Node { std::string name; std::vector<std::shared_ptr<Node>> children; };

std::shared_ptr<Node> grow(int depth, const std::string& name) {
  auto node = std::make_shared<Node>(Node{name, {}});
  for (int i = 0; depth > 0 && i < 4; ++i) {
    node->children.push_back(grow(depth - 1, name + char('a' + i)));
  }
  return node;
}

size_t weigh(const Node& node) {
  size_t total = node.name.size();
  for (const auto& child : node.children) total += weigh(*child);
  return total;
}

int main() {
  std::map<std::string, std::variant<int, std::string>> mixed;
  std::unordered_map<int, std::vector<std::string>> lists;
  for (int i = 0; i < 20000; ++i) {
    lists[i % 501].push_back(std::string(static_cast<size_t>(i % 60), 'x'));
    if (i % 2) mixed["k" + std::to_string(i)] = i;
    else mixed["k" + std::to_string(i)] = std::to_string(i);
  }
  size_t sum = 0;
  for (const auto& [key, list] : lists) {
    for (const auto& text : list) sum += text.size() + size_t(key);
  }
  std::vector<size_t> weights(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { weights[i] = weigh(*grow(5, std::string(i, 'n'))); });
  }
  for (auto& thread : threads) thread.join();
  std::cout << Fold<400>::value << ' ' << mixed.size() << ' ' << sum << ' '
            << std::accumulate(weights.begin(), weights.end(), size_t{0}) << std::endl;
}
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Toolchain(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def git(self, *arguments: str | Path, preload: bool, cwd: Path | None = None) -> bytes:
        command = [program("git"), "-c", "gc.auto=0", "-c", "pack.threads=2", *arguments]
        if preload:
            return self.run_preloaded(command, extra=WHO, cwd=cwd).out
        result = run(command, preload=False, extra=WHO, cwd=cwd)
        self.assert_good(result)
        return result.out

    def make_history(self, name: str, preload: bool) -> tuple[Path, bytes]:
        """A repository whose history is a function of the constants above; its last commit."""
        folder = self.folder / name
        self.git("init", "-q", "-b", "main", folder, preload=preload)
        for commit in range(COMMITS):
            for number in range(commit, FILES, 1 + commit % 5):
                lines = (f"line {i} of {number} at {commit * (i % 3)}\n" for i in range(number * 9))
                text = "".join(lines)
                (folder / f"file{number}").write_text(text, encoding="utf-8")
            self.git("add", "-A", preload=preload, cwd=folder)
            self.git("commit", "-q", "-m", f"commit {commit}", preload=preload, cwd=folder)
        return folder, self.git("rev-parse", "HEAD", preload=preload, cwd=folder)

    def test_git(self) -> None:
        origin, head = self.make_history("plain", preload=False)
        log = self.git("log", "--stat", "-p", "-M", preload=False, cwd=origin)
        _, head_under_us = self.make_history("preloaded", preload=True)
        self.assertEqual(head, head_under_us)
        for round_number in range(ROUNDS):
            clone = self.folder / f"clone{round_number}"
            self.git("clone", "-q", "--no-local", origin, clone, preload=True)
            self.git("gc", "-q", "--aggressive", "--prune=now", preload=True, cwd=clone)
            self.git("fsck", "--full", "--strict", preload=True, cwd=clone)
            self.assertEqual(self.git("rev-parse", "HEAD", preload=True, cwd=clone), head)
            self.assertEqual(self.git("log", "--stat", "-p", "-M", preload=True, cwd=clone), log)
            self.git("grep", "-c", "line 7 of", preload=True, cwd=clone)
            self.git("blame", "file50", preload=True, cwd=clone)

    def compile(self, preload: bool, *arguments: str | Path) -> None:
        result = run([program("g++"), "-std=c++20", "-frandom-seed=1", *arguments],
                     preload=preload, cwd=self.folder)
        self.assert_good(result)
        if preload:
            self.assert_served(result)
            count()

    def test_gcc_compiles_and_what_it_made_runs(self) -> None:
        (self.folder / "source.cc").write_text(SOURCE, encoding="utf-8")
        self.compile(False, "-O2", "-g", "-c", "source.cc", "-o", "expected.o")
        self.compile(False, "expected.o", "-pthread", "-o", "expected")
        expected = digest(self.folder / "expected.o")
        for round_number in range(ROUNDS):
            made = f"made{round_number}"
            self.compile(True, "-O2", "-g", "-c", "source.cc", "-o", "made.o")
            self.assertEqual(digest(self.folder / "made.o"), expected)
            self.compile(True, "made.o", "-pthread", "-o", made)
            self.assertEqual(digest(self.folder / made), digest(self.folder / "expected"))
        self.same_three_times([self.folder / "made0"])

    def test_gcc_links_with_the_optimizer_in_parallel(self) -> None:
        (self.folder / "source.cc").write_text(SOURCE, encoding="utf-8")
        self.compile(True, "-O2", "-flto=2", "source.cc", "-pthread", "-o", "whole")
        self.same_three_times([self.folder / "whole"])

    def test_gcc_compiles_against_our_header(self) -> None:
        header = Path(os.environ["NEAR_TEST_INCLUDE"])
        (self.folder / "use.c").write_text(
            '#include <nearmalloc/nearmalloc.h>\n'
            'int main(void) { puts(near_version()); return 0; }\n', encoding="utf-8")
        for language in (["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++11"]):
            command = [program("gcc"), "-Wall", "-Wextra", "-Wpedantic", "-Werror", *language,
                       "use.c", f"-I{header}", "-c", "-o", "use.o"]
            self.assert_good(run(command, preload=False, cwd=self.folder))
            count()


if __name__ == "__main__":
    main()
