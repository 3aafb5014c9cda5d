#!/usr/bin/env python3
"""No file's language gets worse: noun subjects, few pronouns, few numbers in a sentence.

The check counts in the comments and documents of each file, without code, tables and headings:

- `subjects`: sentences and clauses with a pronoun as subject (`It is kept.`, `What it has`);
- `pronouns`: `that`, `which`, `what`, `one`, `those`;
- `it`: `it`, `they` and other cases of both;
- `numbers`: sentences with more than two numbers.

`ci/language_baseline.json` has the goals, and a line of counts for each file above a goal. A file
above a goal fails if the counts are worse than the line, or if no line exists. Subjects of commits
have at most 72 characters, from the baseline's commit on.

    ci/check_language.py --update          lowers the baseline to the present counts
    ci/check_language.py --moved A B ...   text moved among these files: the sums must not rise
    ci/check_language.py --rebase          makes the baseline anew, after the merge of many changes

Invariant: only --rebase raises a count of the tree.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from checking import ROOT, Example, Findings, report, self_test
from prose import C_LIKE, DOCUMENTS, prose, texts

BASELINE = "ci/language_baseline.json"
SUBJECT_LENGTH = 72
LINES_SHOWN = 3

_PRONOUN = re.compile(r"\b(?:that|which|what|one|those)\b", re.IGNORECASE)
_IT = re.compile(r"\b(?:it|its|itself|they|them|their|themselves)\b", re.IGNORECASE)
# Pronouns before these words; before a noun ("this page", "one lock") the same words are articles.
_VERBS = (
    "is|are|was|were|be|has|have|had|can|may|might|must|will|would|does|do|did|should|could|of"
    "|that|which|in|with|for|and|or|as|not|also|makes?|takes?|gives?|keeps?|needs?|costs?|says?"
    "|shows?|means?|allows?|lets?|holds?|works?|runs?|includes?|becomes?|happens?|goes|comes?"
)
_PRONOUN_SUBJECT = re.compile(
    rf"[\W_]*(?:(?:it|they|what|which)\b|(?:this|that|these|those|one)\s+(?:{_VERBS})\b)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.§#+-])\d[\d,]*(?:\.\d+)?(?![\w-]|\.\d)")
# Names of things (a chapter, a version, a date), and intervals behind a number.
_NAMED = re.compile(
    r"\b(?:chapters?|figures?|tables?|sections?|tests?|decisions?|rules?|steps?|lines?|issues?"
    r"|commit|version|nodes?|class(?:es)?|mimalloc|C\+\+|Linux|Debian|GCC|Clang|Python|glibc)"
    r"\s+\d[\d.]*"
    r"|\b\d{1,2}\s+(?:January|February|March|April|May|June|July|August|September|October"
    r"|November|December)(?:\s+\d{4})?|\b\d{4}-\d\d-\d\d\b|\[\d[\d.,\s]*\]|\bx\s10\^\d+",
    re.IGNORECASE,
)
_MARKUP = [  # in the order of removal
    (re.compile(r"<!-- number: .*?-->.*?<!-- end -->", re.DOTALL), "1"),  # a generated number
    (re.compile(r"<!--.*?-->", re.DOTALL), ""),
    (re.compile(r"`[^`\n]*(?:\n[^`\n]+)?`"), "code"),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
]
_LEADER = re.compile(r"^\s*(?://+[!/]?|/\*+|\*+/|\*(?=\s|$)|#+!?|;+)?\s?")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+")
_CLAUSE_END = re.compile(r"(?<=[.!?;:])[\"')*_]*\s+")
COUNTS = ("words", "subjects", "pronouns", "it", "numbers")
ABSOLUTE = ("subjects", "numbers")  # the other counts may grow with the words


@dataclass
class Language:
    """The counts of one file, and the first lines with each fault."""

    counts: Counter[str] = field(default_factory=Counter)
    seen: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, number: int, line: int, words: str) -> None:
        self.counts[what] += number
        if number:
            self.seen.setdefault(what, []).append(f"line {line}: '{words[:40].strip()}'")


def _blocks(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The prose of a file; successive lines of a comment are a block."""
    if path.suffix in DOCUMENTS:
        yield from prose(path, text)
        return
    lines, begun, found = text.splitlines(), 0, list[str]()
    for first, part in prose(path, text):
        alone = not C_LIKE & {path.suffix} or lines[first - 1].lstrip().startswith(("//", "/*"))
        if found and (first != begun + len(found) or not alone or "\n" in part):
            yield begun, "\n".join(found)
            found = []
        begun = begun if found else first
        found += part.split("\n")
        if not alone:
            yield begun, "\n".join(found)
            found = []
    if found:
        yield begun, "\n".join(found)


def _paragraphs(path: Path, first: int, block: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and list items of a block, each with a line; no tables or headings."""
    is_document = path.suffix in DOCUMENTS
    begun, found = first, list[str]()
    for number, line in enumerate(_without_markup(block).split("\n"), first):
        plain = line if is_document else _LEADER.sub("", line, count=1).removesuffix("*/")
        is_other = is_document and plain.lstrip().startswith(("|", "#", "<", "."))
        ends = not plain.strip() or is_other or _ITEM.match(plain)
        if found and ends:
            yield begun, " ".join(found)
            found = []
        if plain.strip() and not is_other:
            begun = begun if found else number
            found.append(_ITEM.sub("", plain, count=1).strip())
    if found:
        yield begun, " ".join(found)


def _without_markup(text: str) -> str:
    """The text without markup and code; the number of lines stays."""
    for pattern, left in _MARKUP:
        text = pattern.sub(
            lambda match, left=left: match.expand(left) + "\n" * (  # type: ignore[misc]
                match.group().count("\n") - match.expand(left).count("\n")), text)
    return text


def read(path: Path, text: str) -> Language:
    """The language of a file."""
    found = Language()
    for first, block in _blocks(path, text):
        for line, paragraph in _paragraphs(path, first, block):
            found.counts["words"] += len(paragraph.split())
            found.add("pronouns", len(_PRONOUN.findall(paragraph)), line, paragraph)
            found.add("it", len(_IT.findall(paragraph)), line, paragraph)
            for clause in _CLAUSE_END.split(paragraph):
                found.add("subjects", int(bool(_PRONOUN_SUBJECT.match(clause))), line, clause)
            for sentence in _SENTENCE_END.split(paragraph):
                many = len(_NUMBER.findall(_NAMED.sub("", sentence))) > 2
                found.add("numbers", int(many), line, sentence)
    return found


@dataclass
class Baseline:
    """The goals, the first commit not to judge, and the counts of files above a goal."""

    goals: dict[str, float]
    fewest_words: int  # the goals of a shorter file are those of so many words
    commit: str
    files: dict[str, dict[str, int]]

    def allowed_by_goal(self, what: str, words: int) -> float:
        return self.goals[what] * max(words, self.fewest_words) / 100

    def worse(self, what: str, now: Counter[str], before: dict[str, int]) -> bool:
        """True if the count is above the goal and above the count before; a rate must also be above
        the rate before."""
        if now[what] <= self.allowed_by_goal(what, now["words"]):
            return False
        more = now[what] > before.get(what, 0)
        denser = now[what] * before.get("words", 0) > before.get(what, 0) * now["words"]
        return more and (denser or what in ABSOLUTE or not before)

    def misses(self, now: Counter[str]) -> bool:
        return any(now[what] > self.allowed_by_goal(what, now["words"]) for what in self.goals)

    def written(self) -> str:
        """JSON with a line for each file, sorted."""
        files = ",\n".join(f"  {json.dumps(name)}: {[counts.get(what, 0) for what in COUNTS]}"
                           for name, counts in sorted(self.files.items()))
        head = {"goals_per_100_words": self.goals, "fewest_words": self.fewest_words,
                "commit": self.commit, "counts": COUNTS}
        heads = "".join(f' "{key}": {json.dumps(value)},\n' for key, value in head.items())
        return f'{{\n{heads} "files": {{\n{files}\n }}\n}}\n'


def load(root: Path) -> Baseline:
    read_ = json.loads((root / BASELINE).read_text(encoding="utf-8"))
    files = {name: dict(zip(COUNTS, counts, strict=True))
             for name, counts in read_["files"].items()}
    return Baseline(read_["goals_per_100_words"], read_["fewest_words"], read_["commit"], files)


def languages(root: Path) -> dict[str, Language]:
    found = {}
    for path in texts(root):
        name = path.relative_to(root)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a fault of check_prose.py
            continue
        found[str(name)] = read(name, text)
    return found


WORDS = {
    "subjects": "sentences or clauses with a pronoun as subject: name the noun",
    "pronouns": "times that, which, what, one or those: name the noun, or make two sentences",
    "it": "times it or they: repeat the noun",
    "numbers": "sentences with more than two numbers: make a table, or two sentences",
}


def check(root: Path, findings: Findings) -> None:
    baseline = load(root)
    for name, found in languages(root).items():
        findings.count()
        before = baseline.files.get(name, {})
        for what, advice in WORDS.items():
            if baseline.worse(what, found.counts, before):
                goal = int(baseline.allowed_by_goal(what, found.counts["words"]))
                most = max(goal, before.get(what, 0))
                shown = "; ".join(found.seen[what][:LINES_SHOWN])
                findings.fault(name, 0, f"{found.counts[what]} {advice} (at most {most}): {shown}")
    if findings.faults:
        print("text that came from another file: ci/check_language.py --moved FILE OTHER")
    check_subjects(root, baseline.commit, findings)


def git(root: Path, *words: str) -> str | None:
    """The output of a Git command; None without Git or a history."""
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True,
                              check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def check_subjects(root: Path, base: str, findings: Findings) -> None:
    log = git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD") if base else None
    if log is None:
        print(f"subjects of commits: not checked, there is no history from {base or 'a commit'} on")
        return
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        findings.count()
        if len(subject) > SUBJECT_LENGTH:
            findings.fault(f"commit {commit}", 0, f"a subject of {len(subject)} characters, at "
                           f"most {SUBJECT_LENGTH}: {subject[:40]}...")


def update(root: Path, baseline: Baseline) -> str:
    """Lowers each count to the present count; files within the goals leave the baseline."""
    now = languages(root)
    kept = {}
    for name, before in baseline.files.items():
        found = now[name].counts if name in now else Counter[str]()
        if baseline.misses(found):
            worse = any(baseline.worse(what, found, before) for what in WORDS)
            kept[name] = before if worse else {what: found[what] for what in COUNTS}
    baseline.files = kept
    return f"{len(kept)} files miss a goal"


def rebase(root: Path, baseline: Baseline) -> str:
    """The present counts and the present commit become the baseline."""
    now = {name: found.counts for name, found in languages(root).items()}
    baseline.files = {name: {what: counts[what] for what in COUNTS}
                      for name, counts in now.items() if baseline.misses(counts)}
    baseline.commit = (git(root, "rev-parse", "HEAD") or "").strip()
    return f"{len(baseline.files)} of {len(now)} files miss a goal"


def move(root: Path, baseline: Baseline, names: list[str]) -> str:
    """The present counts of these files become the baseline, unless a sum rises above the baseline
    and above the goal. Raises ValueError."""
    now = languages(root)
    if unknown := [name for name in names if name not in now and name not in baseline.files]:
        raise ValueError(f"no file with prose: {', '.join(unknown)}")
    present = {name: now[name].counts for name in names if name in now}
    together, before = sum(present.values(), Counter[str]()), Counter[str]()
    for name in names:
        before.update(baseline.files.get(name, {}))
    for what in WORDS:
        allowed = max(before[what], baseline.allowed_by_goal(what, together["words"]))
        if together[what] > allowed:
            raise ValueError(f"together they have {together[what]} {WORDS[what]}; they had "
                             f"{before[what]}")
    for name in names:
        baseline.files.pop(name, None)
        if name in present and baseline.misses(present[name]):
            baseline.files[name] = {what: present[name][what] for what in COUNTS}
    return f"{len(names)} files share their counts"


def example(name: str, text: str, fault: str | None, file: str = "docs/a.md", **before: int
            ) -> Example:
    """A tree of one file; `before` is the file's line of the baseline."""
    goals = {"subjects": 0.5, "pronouns": 2.0, "it": 1.0, "numbers": 0}
    files = {file: {what: before.get(what, 0) for what in COUNTS}} if before else {}
    baseline = Baseline(goals, 100, "", files).written()
    return Example(name, {file: text, BASELINE: baseline}, fault)


CLEAN = "The lock is free. A thread takes the lock; the queue is then empty.\n"
EXAMPLES = [
    example("clean", CLEAN, None),
    example("subject", "The lock is free. It is taken.\n", "1 sentences or clauses with a pronoun"),
    example("clause", "The lock is free: that of the heap.\n", "line 1: 'that of the heap.'"),
    example("noun", "This page is short. One lock is free; that lock waits.\n", None),
    example("pronouns", "The lock that waits, which is the one lock.\n", "3 times that, which"),
    example("its", "The lock has its owner, and they wait.\n", "2 times it or they"),
    example("numbers", "The pages are 3, 4 and 5.\n", "1 sentences with more than two numbers"),
    example("named", "Debian 12 of 28 November 2026: 0.9 [0.8, 0.95] in figure 4 of 5.\n", None),
    example("generated", "Here <!-- number: a -->1 to 9, 2<!-- end --> of 2 <!-- 3 -->.\n", None),
    example("table", "| it is | that |\n|---|---|\n| 1 2 3 | which |\n\n# It is 1 2 3\n", None),
    example("code", "```\nIt is 1 2 3.\n```\nThe value is `1 2 3 that which one`.\n", None),
    example("as before", "It is free.\n", None, subjects=1, words=3),
    example("worse", "It is free. It waits.\n", "2 sentences or clauses", subjects=1, words=2),
    example("grown", "The one lock that waits, which is free. " + CLEAN * 9, None,
            pronouns=2, words=4),
    example("shrunk", "The one lock that waits, which\n", None, pronouns=3, words=20),
    example("denser", "The one lock that waits, which one\n", "4 times", pronouns=3, words=20),
    example("comment", "// The lock is free.\n// It waits.\nint it;\n", "line 1: 'It waits.'",
            file="malloc/a.h"),
    example("beside code", "int a;  // The lock is free\nint b;  // It waits\n",
            "line 2: 'It waits'", file="malloc/a.h"),
    example("docstring", '"""The lock is free.\n\nIt waits."""\n', "line 3: 'It waits.'",
            file="lab/a.py"),
    example("two lines", "# The lock is free, and\n# it waits for the\n# owner.\n", None,
            file="lab/a.py"),
]


def test_of_a_baseline() -> list[str]:
    """Known uses of the three options and of a history of commits. Returns the faults."""
    wrong = []

    def expect(name: str, value: object, expected: object) -> None:
        if value != expected:
            wrong.append(f"{name}: expected {expected!r}, saw {value!r}")

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        paths = [root / name for name in ("a.md", "b.md")]
        paths[0].write_text("It waits. It is free.\n", encoding="utf-8")
        paths[1].write_text(CLEAN, encoding="utf-8")
        baseline = Baseline({"subjects": 0.5, "pronouns": 2.0, "it": 1.0, "numbers": 0}, 100, "",
                            {"gone.md": {"words": 9, "subjects": 9}})
        expect("rebase", rebase(root, baseline), "1 of 2 files miss a goal")
        expect("rebased", {name: one["subjects"] for name, one in baseline.files.items()},
               {"a.md": 2})
        paths[0].write_text("It is free.\n", encoding="utf-8")
        paths[1].write_text(CLEAN + "It waits.\n", encoding="utf-8")
        expect("moved", move(root, baseline, ["a.md", "b.md"]), "2 files share their counts")
        expect("shared", [one["subjects"] for one in baseline.files.values()], [1, 1])
        paths[1].write_text("It waits. It is free.\n", encoding="utf-8")
        expect("not raised", update(root, baseline), "2 files miss a goal")
        expect("kept", [one["subjects"] for one in baseline.files.values()], [1, 1])
        try:
            wrong.append(f"moved more: {move(root, baseline, ['a.md', 'b.md'])}")
        except ValueError as error:
            expect("refused", str(error)[:22], "together they have 3 s")
        paths[1].write_text(CLEAN, encoding="utf-8")
        expect("lowered", update(root, baseline), "1 files miss a goal")
        wrong += test_of_commits(root)
    return wrong


def test_of_commits(root: Path) -> list[str]:
    commit = ["-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "--allow-empty", "-m"]
    if git(root, "init", "-q") is None or git(root, *commit, "x" * 80) is None:
        print("commits: not tested, there is no Git")
        return []
    base = (git(root, "rev-parse", "HEAD") or "").strip()
    git(root, *commit, "y" * 72)
    git(root, *commit, "z" * 73)
    findings, unknown = Findings(), Findings()
    check_subjects(root, base, findings)
    check_subjects(root, "0" * 40, unknown)
    right = findings.checked == 2 and len(findings.faults) == 1 and "73" in findings.faults[0]
    return [] if right and not unknown.checked else [f"commits: saw {findings}, {unknown}"]


def changed(change: Callable[[Path, Baseline], str], root: Path) -> int:
    """Writes the baseline after the change."""
    baseline = load(root)
    try:
        print(change(root, baseline))
    except ValueError as error:
        print(f"check_language.py: {error}", file=sys.stderr)
        return 1
    (root / BASELINE).write_text(baseline.written(), encoding="utf-8")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--self-test", action="store_true", help="check the check on known faults")
    actions.add_argument("--update", action="store_true", help="lower the baseline")
    actions.add_argument("--moved", nargs="+", metavar="FILE", help="text moved among these files")
    actions.add_argument("--rebase", action="store_true", help="make the baseline anew")
    arguments = parser.parse_args()
    if arguments.self_test:
        wrong = test_of_a_baseline()
        print("".join(f"{one}\n" for one in wrong), end="")
        return self_test(check, EXAMPLES) or bool(wrong)
    if arguments.update:
        return changed(update, arguments.root)
    if arguments.rebase:
        return changed(rebase, arguments.root)
    if arguments.moved:
        return changed(lambda root, baseline: move(root, baseline, arguments.moved), arguments.root)
    findings = Findings()
    check(arguments.root, findings)
    return report("files and commits", findings)


if __name__ == "__main__":
    sys.exit(main())
