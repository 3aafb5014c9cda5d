<?php
// Strings, arrays, objects, generators, expressions and a database: the same words every time.
function tree(int $depth): ?array {
  return $depth ? ['left' => tree($depth - 1), 'right' => tree($depth - 1), 'v' => $depth] : null;
}
function numbers(int $n) { for ($i = 0; $i < $n; ++$i) yield "k$i" => str_repeat('x', $i % 97); }

$all = iterator_to_array(numbers(20000));
uksort($all, fn($a, $b) => strcmp(md5($a), md5($b)));
echo count($all), ' ', array_key_first($all), ' ', md5(implode(',', $all)), "\n";
echo md5(json_encode(tree(14))), ' ', strlen(serialize(tree(12))), "\n";
preg_match_all('/(\w)(\w+?)x*(?=,)/', implode(',', array_slice($all, 0, 4000)), $found);
echo count($found[0]), ' ', md5(json_encode($found)), "\n";
$objects = [];
for ($i = 0; $i < 50000; ++$i) { $o = new stdClass(); $o->self = $o; $objects[$i % 500] = $o; }
gc_collect_cycles();
echo count($objects), ' ', strlen(str_repeat(implode('', range('a', 'z')), 100000)), "\n";
echo md5(gzcompress(json_encode($all), 6)), "\n";
$base = new PDO('sqlite::memory:');
$base->exec('create table t(a integer primary key, b text)');
$put = $base->prepare('insert into t(b) values(?)');
for ($i = 0; $i < 5000; ++$i) $put->execute([str_repeat("$i", $i % 20)]);
echo json_encode($base->query('select count(*), sum(length(b)), max(b) from t')->fetch()), "\n";
