// Vectors and strings that threads make, send to each other and drop.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::channel;
use std::thread;

fn work(seed: usize) -> (usize, Vec<String>) {
    let mut words: HashMap<String, Vec<usize>> = HashMap::new();
    for i in 0..20000 {
        words.entry(format!("k{}", i * seed % 997)).or_default().push(i);
    }
    let sorted: BTreeMap<_, _> = words.into_iter().collect();
    let sum = sorted.values().map(|v| v.iter().sum::<usize>() % 1009).sum();
    (sum, sorted.into_keys().collect())
}

fn main() {
    for round in 0..5 {
        let (sender, receiver) = channel();
        let threads: Vec<_> = (1..9)
            .map(|seed| {
                let sender = sender.clone();
                thread::spawn(move || sender.send((seed, work(seed + round))).unwrap())
            })
            .collect();
        drop(sender);
        let mut all: Vec<_> = receiver.into_iter().collect();
        threads.into_iter().for_each(|each| each.join().unwrap());
        all.sort();
        for (seed, (sum, keys)) in all {
            println!("{} {} {} {}", seed, sum, keys.len(), keys.concat().len());
        }
    }
}
