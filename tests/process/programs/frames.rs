// Holds blocks that a method, a generic function and a closure allocate (tests/process/frames.py).
use std::collections::HashMap;

mod store {
    pub struct Shelf {
        pub rows: Vec<Vec<u8>>,
    }

    impl Shelf {
        #[inline(never)]
        pub fn plant_method(&mut self, size: usize) {
            self.rows.push(vec![1; size]);
        }
    }
}

#[inline(never)]
fn plant_generic<T: Clone>(value: T, count: usize) -> Vec<T> {
    vec![value; count]
}

#[inline(never)]
fn call(make: &dyn Fn(usize) -> String) -> Vec<String> {
    (0..1000).map(|_| make(3000)).collect()
}

fn main() {
    let mut shelf = store::Shelf { rows: Vec::new() };
    let mut kept: HashMap<usize, Vec<u32>> = HashMap::new();
    for number in 0..1000 {
        shelf.plant_method(3000);
        kept.insert(number, plant_generic(number as u32, 750));
    }
    let made = call(&|size| "v".repeat(size));
    let all = [shelf.rows.len(), kept.len(), made.len()];
    std::process::exit((all != [1000; 3]) as i32); // nothing is dropped
}
