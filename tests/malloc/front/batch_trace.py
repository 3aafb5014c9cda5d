#!/usr/bin/env python3
"""What near_free and near_free_batch cost a block: instructions and cache lines, by every access.

Runs the program named by NEAR_TEST_BATCH_TRACE under Valgrind's lackey and counts what lies between
its marks. Invariant: the first word of each block is written exactly once, a batch makes one group
of each owner's span, and the blocks' lines are those of frees one by one. Prints the table of
docs/decisions/0008-free-batch.md.
"""

import os
import subprocess
import tempfile
import unittest
from dataclasses import dataclass, field

LINE = 64
MARK = b" S 10000000000,8\n"


@dataclass
class Trace:
    instructions: int = 0
    accesses: list[tuple[bool, int]] = field(default_factory=list)  # is it a write; address


@dataclass
class Cost:
    groups: int
    instructions: int
    block_writes: int
    block_lines: int
    descriptor_lines: int
    descriptor_accesses: int
    descriptor_writes: int
    other_lines: int


def traces(stream) -> list[Trace]:
    """What happens between each odd mark and the next."""
    found: list[Trace] = []
    inside = False
    for line in stream:
        if line == MARK:
            inside = not inside
            if inside:
                found.append(Trace())
        elif inside:
            if line.startswith(b"I"):
                found[-1].instructions += 1
            elif line[:3] in (b" L ", b" S ", b" M "):
                found[-1].accesses.append((line[1:2] != b"L", int(line[3:line.index(b",")], 16)))
    return found


def cost(trace: Trace, groups: int, descriptors: range, blocks: range) -> Cost:
    in_blocks = [each for each in trace.accesses if each[1] in blocks]
    in_descriptors = [each for each in trace.accesses if each[1] in descriptors]
    others = {address // LINE for _, address in trace.accesses
              if address not in blocks and address not in descriptors}
    return Cost(groups, trace.instructions, sum(write for write, _ in in_blocks),
                len({address // LINE for _, address in in_blocks}),
                len({address // LINE for _, address in in_descriptors}), len(in_descriptors),
                sum(write for write, _ in in_descriptors), len(others))


def measure() -> dict[tuple[str, int, int, str], Cost]:
    """By where, spans, blocks, and one or batch."""
    environment = os.environ | {"NEARMALLOC_PURGE_THREAD": "0"}
    with tempfile.TemporaryFile() as out:
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes",
                   os.environ["NEAR_TEST_BATCH_TRACE"]]
        with subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE,
                              env=environment) as process:
            found = traces(process.stderr)
        if process.returncode != 0:
            raise RuntimeError(f"status {process.returncode}")
        out.seek(0)
        text = out.read().decode()
    ranges = {}
    cases = []
    for line in text.splitlines():
        words = line.split()
        if words[0] in ("descriptors", "blocks"):
            ranges[words[0]] = range(int(words[1]), int(words[1]) + int(words[2]))
        else:
            cases.append((words[0], int(words[1]), int(words[2]), words[3], int(words[4])))
    if len(cases) != len(found):
        raise RuntimeError(f"{len(cases)} cases, {len(found)} traces")
    return {case[:4]: cost(trace, case[4], ranges["descriptors"], ranges["blocks"])
            for case, trace in zip(cases, found, strict=True)}


class BatchTrace(unittest.TestCase):
    def test_each_line_is_touched_as_seldom_as_can_be(self) -> None:
        costs = measure()
        print("| blocks | spans | list updates | instructions | descriptor lines | accesses | "
              "writes | other lines |")
        for (where, spans, number, how), one in costs.items():
            if how != "one":
                continue
            batch = costs[where, spans, number, "batch"]
            with self.subTest(where=where, spans=spans, blocks=number):
                self.check_case(one, batch, where, spans, number)
            print(f"| {where} {number} | {spans} | " + " | ".join(
                f"{getattr(one, name) / number:.2f} → {getattr(batch, name) / number:.2f}"
                for name in ("groups", "instructions", "descriptor_lines", "descriptor_accesses",
                             "descriptor_writes", "other_lines")) + " |")
        print(f"cases: {len(costs)}")

    def check_case(self, one: Cost, batch: Cost, where: str, spans: int, number: int) -> None:
        in_turn = number if spans > 1 else 1  # neighbours of one own span alone are a group
        self.assertEqual(batch.groups, in_turn if where == "local" else min(spans, number))
        self.assertEqual(batch.block_lines, number)
        self.assertEqual(batch.block_lines, one.block_lines)
        self.assertEqual(batch.block_writes, number)
        self.assertLessEqual(batch.descriptor_lines, one.descriptor_lines)
        self.assertLessEqual(batch.descriptor_writes, one.descriptor_writes)
        if number >= 8 * batch.groups:
            self.assertLessEqual(batch.descriptor_writes, one.descriptor_writes / 8)
        if number >= 8 * spans and where == "remote":
            self.assertLess(batch.instructions, one.instructions)


if __name__ == "__main__":
    unittest.main()
