-- An SQLite program of the demo: a shop's orders in memory, inserted, joined, aggregated, changed.
-- Invariant: the output depends only on :rows (a multiplicative hash makes pseudo-random values).
-- The demo sets :rows and feeds this file to the sqlite3 shell.

PRAGMA cache_size = -200000;
PRAGMA temp_store = MEMORY;

CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT, profile TEXT);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, cents INTEGER,
                       note TEXT);

INSERT INTO customer
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows / 10)
SELECT i,
       'customer ' || (i * 2654435761 % 1000003),
       'city ' || (i * 40503 % 211),
       json_object('level', i % 7, 'visits', i * 31 % 97,
                   'tags', json_array('t' || (i % 13), 't' || (i % 17)),
                   'about', substr(hex(zeroblob(900)), 1, 16 + i * 7919 % 1500))
FROM n;

INSERT INTO purchase
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows)
SELECT i,
       i * 2654435761 % (:rows / 10),
       printf('item-%05d', i * 48271 % 4001),
       100 + i * 16807 % 99991,
       substr(hex(zeroblob(300)), 1, i * 7919 % 400)
FROM n;

CREATE INDEX purchase_customer ON purchase (customer, cents);
CREATE INDEX purchase_item ON purchase (item);

.print -- cities by turnover
SELECT city, count(*), sum(cents), group_concat(DISTINCT substr(item, 6, 2))
FROM customer JOIN purchase ON purchase.customer = customer.id
GROUP BY city ORDER BY sum(cents) DESC, city LIMIT 20;

.print -- profiles, taken apart and put together
SELECT tag.value, count(*), sum(json_extract(profile, '$.visits')), sum(length(profile))
FROM customer, json_each(profile, '$.tags') AS tag
GROUP BY tag.value ORDER BY tag.value;

UPDATE customer
SET profile = json_set(json_remove(profile, '$.about'), '$.seen', id % 5, '$.city', city);
SELECT count(*), sum(length(profile)) FROM customer;

.print -- baskets as documents
SELECT count(*), sum(length(basket)), max(length(basket))
FROM (SELECT json_group_array(
               json_object('item', item, 'cents', cents, 'note', length(note))) AS basket
      FROM purchase GROUP BY customer);

.print -- best purchases of every customer
SELECT sum(cents), count(*)
FROM (SELECT cents, row_number() OVER (PARTITION BY customer ORDER BY cents DESC, id) AS place
      FROM purchase)
WHERE place <= 3;

DELETE FROM purchase WHERE id % 3 = 0;
UPDATE purchase SET note = note || upper(item) || note WHERE id % 4 = 1;
SELECT count(*), sum(cents), sum(length(note)), count(DISTINCT item) FROM purchase;

.print -- words of the notes
SELECT length(word), count(*), min(word), max(word)
FROM (SELECT lower(item) || ':' || city || ':' || customer.name AS word
      FROM purchase JOIN customer ON customer.id = purchase.customer)
GROUP BY length(word) ORDER BY 1;
