#!/usr/bin/env python3
"""Interpreters and tools: each prints under nearmalloc what it prints without it."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from preload import OWN_NAME, PreloadTest, count, main, program, run

BASH = r"""
set -eu
declare -A words
for i in $(seq 1 20000); do words[k$((i % 997))]+=x; done
total=0; for k in "${!words[@]}"; do total=$((total + ${#words[$k]})); done
text=$(printf '%s\n' {1..3000} | sort -r | head -n 5 | tr '\n' ' ')
f() { local a=("$@"); a+=("${a[@]}"); echo "${#a[@]}"; }
big=$(printf 'abc%.0s' {1..50000}); echo "$total $text ${#big} ${big//b/xyz}" | cksum
f {1..2000}
for i in 1 2 3 4 5; do (echo "subshell $i"; x=$(seq "$i"); echo "${x//$'\n'/,}"); done
while read -r a b; do echo "$b-$a"; done < <(paste <(seq 50) <(seq 51 100)) | md5sum
"""

PERL = r"""
use strict; use warnings; use threads;
my %h; $h{$_ % 1009} .= "v$_," for 1..100000;
my $n = 0; $n += length for values %h; print "$n\n";
my @s = sort { $b cmp $a } map { sprintf "%x", $_ * 2654435761 % 1000003 } 1..50000;
print join(" ", @s[0..9]), "\n";
my $text = join " ", map { "word$_" } 1..20000; my %seen;
$seen{length $1}++ while $text =~ /(\w+?\d)(?=\s|$)/g;
print join(",", map { "$_=$seen{$_}" } sort { $a <=> $b } keys %seen), "\n";
my @tree = (); push @tree, { left => $tree[-1], value => $_ } for 1..20000;
print $tree[-1]{value}, "\n";
for my $i (1..4) {
  my $pid = fork // die;
  if (!$pid) { my @a = (1..10000); exit(@a == 10000 ? 0 : 1) }
  waitpid $pid, 0; print "child $i: $?\n"; }
sub weigh { my $s = shift; $s += length("x" x $_) for 1..2000; $s }
my @t = map { threads->create(\&weigh, $_) } 1..4;
print join(",", map { $_->join } @t), "\n";
"""

PYTHON = r"""
import collections, concurrent.futures, hashlib, json, multiprocessing, pickle, re, sqlite3, zlib

def build(seed):
    tree = {f"key{i * seed % 10007}": [i, str(i) * (i % 7), {"n": i / 3}] for i in range(20000)}
    text = json.dumps(tree, sort_keys=True)
    again = pickle.loads(pickle.dumps(json.loads(text)))
    counts = collections.Counter(re.findall(r"\d{2}", text[:200000]))
    packed = zlib.compress(text.encode(), 6)
    return hashlib.sha256(json.dumps([again, counts.most_common(9)], sort_keys=True).encode()
                          + zlib.decompress(packed)).hexdigest()

print(build(7))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(*pool.map(build, [3, 5, 11, 13]), sep="\n")
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(*pool.map(build, [17, 19]), sep="\n")
base = sqlite3.connect(":memory:")
base.execute("create table t(a integer primary key, b text)")
base.executemany("insert into t(b) values(?)", ((str(i) * (i % 50),) for i in range(20000)))
print(base.execute("select count(*), sum(length(b)), max(b) from t where b like '%9%'").fetchone())
"""

NODE = r"""
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
function work(seed) {
  const map = new Map();
  for (let i = 0; i < 50000; i++) {
    map.set('k' + (i * seed) % 20011, { i, text: String(i).repeat(i % 9) });
  }
  const text = JSON.stringify([...map].sort());
  const parts = [];
  for (let i = 0; i < 2000; i++) parts.push(Buffer.alloc(i % 4096, i & 255));
  return crypto.createHash('sha256').update(text).update(Buffer.concat(parts)).digest('hex');
}
if (isMainThread) {
  console.log(work(7), require('zlib').gzipSync('x'.repeat(1e6)).length);
  const jobs = [3, 5, 11].map((seed) => new Promise((done) =>
    new Worker(__filename, { workerData: seed }).on('message', done)));
  Promise.all(jobs).then((all) => console.log(all.join('\n')));
} else {
  parentPort.postMessage(work(workerData));
}
"""

SQL = r"""
create table t(id integer primary key, name text, value real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
  insert into t select i, printf('name-%d', i * 7919 % 100003), i / 7.0 from n;
create index by_name on t(name);
select count(*), sum(length(name)), round(avg(value), 3) from t;
select substr(name, 1, 7) as p, count(*) from t group by p order by 2 desc, 1 limit 5;
select a.id, b.id from t a join t b on a.name = b.name where a.id % 9999 = 0 order by 1 limit 9;
update t set name = name || '-' || id where id % 3 = 0;
delete from t where id % 5 = 0;
vacuum;
select count(*), max(name), json_group_array(id) from (select * from t order by name limit 200);
pragma integrity_check;
"""

SSL = r"""
set -eu
printf 'a secret of some length %.0s' {1..20000} > plain
openssl dgst -sha256 -sha512 plain; openssl dgst -md5 plain
openssl enc -aes-256-cbc -pbkdf2 -S 0123456789abcdef -k pass -in plain -out coded
openssl enc -d -aes-256-cbc -pbkdf2 -S 0123456789abcdef -k pass -in coded | cmp - plain && echo same
openssl genrsa -out key 2048 2>/dev/null; openssl rsa -in key -check -noout
openssl req -new -x509 -key key -subj /CN=test -days 2 -out cert
openssl x509 -in cert -noout -subject
openssl dgst -sha256 -sign key -out sig plain; openssl rsa -in key -pubout -out pub 2>/dev/null
openssl dgst -sha256 -verify pub -signature sig plain
openssl ecparam -name prime256v1 -genkey -noout -out ec
openssl ec -in ec -check -noout 2>&1 | grep "EC Key valid"
openssl speed -seconds 1 -bytes 1024 -multi 2 sha256 >/dev/null 2>&1 && echo speed
"""


class Programs(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def script(self, text: str) -> Path:
        path = self.folder / "script"
        path.write_text(text, encoding="utf-8")
        return path

    def test_bash(self) -> None:
        self.same_three_times([program("bash"), self.script(BASH)])

    def test_perl(self) -> None:
        threaded = run([program("perl"), "-Mthreads", "-e", "1"], preload=False).status == 0
        text = PERL if threaded else PERL.replace("use threads;", "").rsplit("sub weigh", 1)[0]
        self.same_three_times([program("perl"), self.script(text)])

    def test_python(self) -> None:
        self.same_three_times([sys.executable, self.script(PYTHON)])

    def test_python_with_every_object_from_malloc(self) -> None:
        self.same_three_times([sys.executable, self.script(PYTHON)],
                              extra={"PYTHONMALLOC": "malloc"})

    def test_the_system_python(self) -> None:
        if not os.access("/usr/bin/python3", os.X_OK):
            self.skipTest("there is no /usr/bin/python3")
        self.same_three_times(["/usr/bin/python3", self.script(PYTHON)])

    def test_the_own_tests_of_python(self) -> None:
        """Without a summary at exit: some of these tests expect silence of their children."""
        modules = [f"test.test_{name}" for name in
                   ("dict", "list", "set", "json", "gc", "sort")]
        probe = run([sys.executable, "-c", f"import {', '.join(modules)}"], preload=False)
        if probe.status != 0:
            self.skipTest("this Python comes without its own tests")
        served = f"import ctypes; ctypes.CDLL(None).{OWN_NAME}"
        self.assert_good(run([sys.executable, "-c", served]))
        for allocator in ("default", "malloc"):
            result = run([sys.executable, "-m", "unittest", "-q", *modules], summary=False,
                         extra={"PYTHONMALLOC": allocator}, timeout=280)
            self.assert_good(result)
            ran = int(result.complaints.split(b"Ran ")[1].split()[0])
            self.assertGreater(ran, 500)
            count(ran)

    def test_node(self) -> None:
        path = self.folder / "script.js"
        path.write_text(NODE, encoding="utf-8")
        self.same_three_times([program("node"), path])

    def test_sqlite3(self) -> None:
        self.same_three_times([program("sqlite3"), ":memory:"], stdin=SQL.encode())

    def test_sqlite3_on_a_file(self) -> None:
        text = f"attach '{self.folder}/base' as f;".encode() + SQL.encode()
        self.same_three_times([program("sqlite3"), "-bail"], stdin=text)

    def test_openssl(self) -> None:
        program("openssl")
        self.same_three_times([program("bash"), self.script(SSL)], cwd=self.folder)


if __name__ == "__main__":
    main()
