// A Node program of the lab: buffers, maps, text and compression over the entries of a ledger.
//
// Invariant: the printed digest depends only on the argument: own generator, a fixed seed.
// nearlab.programs.node runs it as a child.
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');

let state = 12345;
function random(limit) {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return (state >>> 8) % limit;
}

function round(number, digest) {
  const accounts = new Map();
  const held = [];
  for (let i = 0; i < 1500; ++i) {
    const entry = { id: i, round: number, account: `account-${random(300)}`, cents: random(99999) };
    accounts.set(entry.account, (accounts.get(entry.account) ?? 0) + entry.cents);
    // Above half of Buffer.poolSize, malloc allocates a buffer.
    const buffer = Buffer.alloc(5000 + random(9000), JSON.stringify(entry));
    held.push(buffer);
    if (held.length > 200) digest.update(held.splice(random(200), 1)[0].subarray(0, 99));
  }
  const text = JSON.stringify([...accounts].sort());
  const packed = zlib.deflateRawSync(Buffer.concat([Buffer.from(text), ...held.slice(0, 4)]));
  digest.update(zlib.inflateRawSync(packed));
}

const digest = crypto.createHash('sha256');
for (let number = 0; number < Number(process.argv[2]); ++number) round(number, digest);
console.log(digest.digest('hex'));
