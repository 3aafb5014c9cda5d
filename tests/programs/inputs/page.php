<?php
// A page of some work; ?n= chooses it.
$n = (int)($_GET['n'] ?? 7);
$all = [];
for ($i = 0; $i < 2000; ++$i) $all["k" . ($i * $n) % 1009] = str_repeat((string)$i, $i % 9);
ksort($all);
$found = preg_match_all('/\d(?=7)/', implode(' ', $all));
$base = new PDO('sqlite::memory:');
$base->exec('create table t(a text)');
$put = $base->prepare('insert into t values(?)');
foreach (array_slice($all, 0, 50) as $each) $put->execute([$each]);
$sum = $base->query('select sum(length(a)) from t')->fetchColumn();
header('Content-Type: text/plain');
echo count($all), ' ', md5(json_encode($all)), " $found $sum\n";
