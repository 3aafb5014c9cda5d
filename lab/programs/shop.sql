-- Queries for MariaDB: sorts, joins, aggregates, texts, JSON, tables that live for one query.
-- Invariant: every printed row depends only on :rows. nearlab.programs.mariadb runs it; sysbench
-- then uses sbtest1 and sbtest2 (its own rows differ from run to run).
CREATE TABLE customer (id INT PRIMARY KEY, name VARCHAR(60), town VARCHAR(30), note TEXT);
CREATE TABLE sale (
  id INT PRIMARY KEY, customer INT, cents INT, article VARCHAR(40), day DATE, KEY (customer)
);
INSERT INTO customer
  SELECT seq, CONCAT('name ', MD5(seq)), CONCAT('town ', seq * 7 MOD 53),
    REPEAT(MD5(seq), seq MOD 40)
  FROM seq_1_to_1000;
INSERT INTO sale
  SELECT seq, 1 + seq * 769 MOD 1000, seq * 7919 MOD 100000, CONCAT('article ', seq * 31 MOD 211),
    DATE '2020-01-01' + INTERVAL seq MOD 900 DAY
  FROM seq_1_to_20000 WHERE seq <= :rows;
CREATE TABLE sbtest1 (
  id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL,
  KEY (k)
);
CREATE TABLE sbtest2 LIKE sbtest1;
INSERT INTO sbtest1
  SELECT seq, 1 + seq * 389 MOD 1000, SHA2(seq, 256), MD5(seq) FROM seq_1_to_1000;
INSERT INTO sbtest2 SELECT * FROM sbtest1;
SELECT town, COUNT(*), SUM(cents), MAX(article)
  FROM sale JOIN customer ON customer.id = sale.customer GROUP BY town ORDER BY SUM(cents), town;
SELECT article, COUNT(DISTINCT customer), MD5(GROUP_CONCAT(cents ORDER BY sale.id))
  FROM sale GROUP BY article ORDER BY article;
SELECT MD5(GROUP_CONCAT(name ORDER BY total DESC, name)) FROM (
  SELECT name, SUM(cents) AS total FROM sale JOIN customer ON customer.id = customer
  GROUP BY customer.id, name HAVING total > 100000
) AS large;
SELECT YEAR(day), MONTH(day),
    MD5(JSON_ARRAYAGG(JSON_OBJECT('article', article, 'cents', cents) ORDER BY id))
  FROM sale GROUP BY YEAR(day), MONTH(day) ORDER BY 1, 2;
SELECT SUM(LENGTH(UPPER(CONCAT(note, name)))), MIN(REVERSE(name)),
    SUM(LENGTH(REPLACE(note, 'a', 'bb')))
  FROM customer;
SELECT MD5(GROUP_CONCAT(id, ':', place ORDER BY id)) FROM (
  SELECT id, RANK() OVER (PARTITION BY customer ORDER BY cents, id) AS place FROM sale
) AS ranks WHERE place < 3;
UPDATE customer SET note = CONCAT(note, name) WHERE id MOD 3 = 0;
DELETE FROM sale WHERE id MOD 7 = 0;
CHECKSUM TABLE customer, sale, sbtest1, sbtest2;
