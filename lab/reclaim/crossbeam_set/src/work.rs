//! The work of lab/reclaim/set_work.h, with the same operations in the same order, the same
//! checksum and the same proof.
//!
//! Invariant: operation i is the same whichever thread executes it; sum of the set's keys = sum of
//! keys inserted - sum of keys erased.

use crate::list::Key;
use crate::options::Options;
use crate::set::Set;
use crossbeam_epoch::{self as epoch, Atomic};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

/// The counts of one thread, or of all. Aligned, so that no two threads' counters share a line.
#[derive(Default)]
#[repr(align(128))]
pub struct Tally {
    pub operations: u64,
    pub checksum: u64,
    pub inserted: u64,
    pub erased: u64,
    key_sum: u64,
}

/// The result of a run.
pub struct Outcome {
    pub seconds: f64,
    pub total: Tally, // without the prefill
    pub prefilled: u64,
    pub size: u64,
    pub verified: bool,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.checksum = self.checksum.wrapping_add(other.checksum);
        self.inserted += other.inserted;
        self.erased += other.erased;
        self.key_sum = self.key_sum.wrapping_add(other.key_sum);
    }

    fn insert(&mut self, set: &dyn Set, key: Key) {
        if set.insert(key) {
            self.inserted += 1;
            self.key_sum = self.key_sum.wrapping_add(key as u64);
        }
    }

    fn erase(&mut self, set: &dyn Set, key: Key) {
        if set.erase(key) {
            self.erased += 1;
            self.key_sum = self.key_sum.wrapping_sub(key as u64);
        }
    }
}

/// Hands out numbers of operations in chunks.
struct Numbers {
    next: AtomicU64,
    end: u64,
}

const CHUNK: u64 = 64;

impl Numbers {
    fn new(first: u64, count: u64) -> Self {
        Numbers {
            next: AtomicU64::new(first),
            end: first + count,
        }
    }

    fn take_all(&self, mut each: impl FnMut(u64)) {
        loop {
            // Relaxed: only the number itself is shared.
            let begin = self.next.fetch_add(CHUNK, Relaxed);
            if begin >= self.end {
                return;
            }
            (begin..self.end.min(begin + CHUNK)).for_each(&mut each);
        }
    }
}

const PREFILL_NUMBERS: u64 = 1 << 40; // the measured region uses lower numbers

pub fn run(set: &dyn Set, options: &Options) -> Outcome {
    let before = prefill(set, options);
    let numbers = Numbers::new(0, options.operations);
    let operate = |_| operate(set, &numbers, options.keys, options.updates);
    let (seconds, tallies) = timed(options.threads, operate);
    let mut total = Tally::default();
    tallies.iter().for_each(|tally| total.add(tally));
    let (mut size, mut key_sum) = (0u64, 0u64);
    set.for_each(&mut |key| {
        size += 1;
        key_sum = key_sum.wrapping_add(key as u64);
    });
    let prefilled = before.inserted - before.erased;
    let verified = key_sum == before.key_sum.wrapping_add(total.key_sum)
        && size == prefilled + total.inserted - total.erased;
    Outcome {
        seconds,
        total,
        prefilled,
        size,
        verified,
    }
}

/// Only pins, and reads one pointer under each pin; the checksum is the number of operations.
pub fn pin(options: &Options) -> Outcome {
    let (each, more) = (
        options.operations / options.threads,
        options.operations % options.threads,
    );
    let (seconds, counts) = timed(options.threads, |index| {
        let read = Atomic::new(0);
        let count = each + u64::from(index < more);
        for _ in 0..count {
            let guard = epoch::pin();
            black_box(read.load(Acquire, &guard));
        }
        drop(unsafe { read.try_into_owned() });
        count
    });
    let operations = counts.iter().sum();
    let total = Tally {
        operations,
        checksum: operations,
        ..Tally::default()
    };
    Outcome {
        seconds,
        total,
        prefilled: 0,
        size: 0,
        verified: operations == options.operations,
    }
}

/// Runs threads that start together. The seconds are from the first start to the last end.
fn timed<T: Send>(threads: u64, body: impl Fn(u64) -> T + Sync) -> (f64, Vec<T>) {
    let all = Barrier::new(threads as usize);
    let spans: Vec<(Instant, Instant, T)> = std::thread::scope(|scope| {
        let start = |index| {
            let (all, body) = (&all, &body);
            scope.spawn(move || {
                all.wait();
                let began = Instant::now();
                let result = body(index);
                (began, Instant::now(), result)
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let began = spans.iter().map(|span| span.0).min().unwrap();
    let ended = spans.iter().map(|span| span.1).max().unwrap();
    (
        (ended - began).as_secs_f64(),
        spans.into_iter().map(|span| span.2).collect(),
    )
}

/// Executes two updates for each key, after which half of the keys less 2 % are in the set.
fn prefill(set: &dyn Set, options: &Options) -> Tally {
    let numbers = Numbers::new(PREFILL_NUMBERS, 2 * options.keys);
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let threads = options.threads.min(processors);
    let (_, tallies) = timed(threads, |_| operate(set, &numbers, options.keys, 100));
    let mut total = Tally::default();
    tallies.iter().for_each(|tally| total.add(tally));
    total
}

fn operate(set: &dyn Set, numbers: &Numbers, keys: u64, updates: u64) -> Tally {
    let mut tally = Tally::default();
    numbers.take_all(|number| {
        let word = mixed(number);
        let key = (((word >> 32) * keys) >> 32) as Key;
        if ((word & 0xffff) * 100) >> 16 >= updates {
            black_box(set.contains(key));
        } else if word >> 16 & 1 != 0 {
            tally.insert(set, key);
        } else {
            tally.erase(set, key);
        }
        tally.checksum = tally.checksum.wrapping_add(word);
        tally.operations += 1;
    });
    tally
}

/// Every bit of the result depends on every bit of the number. [Steele14, splitmix64]
fn mixed(number: u64) -> u64 {
    let mut word = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
