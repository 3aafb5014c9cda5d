//! The options, in the form of the lab's other workloads (help.txt, which the lab reads as well).
//!
//! Invariant: options that were read do not contradict each other.

pub const HELP: &str = include_str!("help.txt");

#[derive(Clone, Copy, PartialEq)]
pub enum Structure {
    List,
    HashMap,
    None,
}

pub struct Options {
    pub structure: Structure,
    pub threads: u64,
    pub operations: u64,
    pub keys: u64,
    pub updates: u64,
    pub buckets: u64,
}

/// Returns the options, None if the user asked for help, or a line that describes the fault.
pub fn read(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        structure: Structure::List,
        threads: 2,
        operations: 0,
        keys: 1000,
        updates: 100,
        buckets: 1 << 16,
    };
    let mut standard_operations = 20_000_000;
    while let Some(word) = words.next() {
        if word == "--help" || word == "-h" {
            return Ok(None);
        }
        let value = words
            .next()
            .ok_or(format!("{word}: has no value, or is unknown"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{word}: {value} is no number"))
        };
        match word.as_str() {
            "--preset" => standard_operations = of_preset(&value)?,
            "--structure" => options.structure = structure(&value)?,
            "--threads" => options.threads = at_least_one(&word, number()?)?,
            "--operations" => options.operations = at_least_one(&word, number()?)?,
            "--keys" => options.keys = at_least_one(&word, number()?)?,
            "--updates" => options.updates = number()?,
            "--buckets" => options.buckets = at_least_one(&word, number()?)?,
            _ => return Err(format!("{word}: is unknown")),
        }
    }
    if options.operations == 0 {
        options.operations = standard_operations;
    }
    check(&options).map(|()| Some(options))
}

fn of_preset(name: &str) -> Result<u64, String> {
    match name {
        "paper" => Ok(20_000_000),
        "two-cores" => Ok(1_000_000),
        _ => Err(format!("--preset: {name} is not paper or two-cores")),
    }
}

fn structure(name: &str) -> Result<Structure, String> {
    match name {
        "list" => Ok(Structure::List),
        "hash_map" => Ok(Structure::HashMap),
        "none" => Ok(Structure::None),
        _ => Err(format!("--structure: {name} is not list, hash_map or none")),
    }
}

fn at_least_one(option: &str, number: u64) -> Result<u64, String> {
    if number == 0 {
        Err(format!("{option}: must be at least 1"))
    } else {
        Ok(number)
    }
}

fn check(options: &Options) -> Result<(), String> {
    let problems = [
        (options.updates > 100, "--updates is above 100"),
        (options.keys >= 1 << 32, "--keys is above 2^32 - 1"),
        (
            options.operations < options.threads,
            "--operations is below --threads",
        ),
        (
            !options.buckets.is_power_of_two(),
            "--buckets is no power of two",
        ),
    ];
    match problems.iter().find(|problem| problem.0) {
        Some(problem) => Err(problem.1.to_string()),
        None => Ok(()),
    }
}
