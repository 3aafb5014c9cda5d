//! The measured sets, behind one interface: the list, and a table of lists.

use crate::list::{Key, List};
use crossbeam_epoch as epoch;

/// Any thread may call these operations; each pins for itself.
pub trait Set: Sync {
    fn insert(&self, key: Key) -> bool;
    fn erase(&self, key: Key) -> bool;
    fn contains(&self, key: Key) -> bool;
    fn for_each(&self, visit: &mut dyn FnMut(Key));
}

impl Set for List {
    fn insert(&self, key: Key) -> bool {
        List::insert(self, key, &epoch::pin())
    }
    fn erase(&self, key: Key) -> bool {
        List::erase(self, key, &epoch::pin())
    }
    fn contains(&self, key: Key) -> bool {
        List::contains(self, key, &epoch::pin())
    }
    fn for_each(&self, visit: &mut dyn FnMut(Key)) {
        List::for_each(self, &epoch::pin(), visit);
    }
}

/// A fixed number of buckets, a power of two, each a list.
pub struct HashMap {
    buckets: Box<[List]>,
}

impl HashMap {
    pub fn new(buckets: usize) -> Self {
        assert!(buckets.is_power_of_two());
        HashMap {
            buckets: (0..buckets).map(|_| List::new()).collect(),
        }
    }

    fn bucket(&self, key: Key) -> &List {
        let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }
}

impl Set for HashMap {
    fn insert(&self, key: Key) -> bool {
        self.bucket(key).insert(key, &epoch::pin())
    }
    fn erase(&self, key: Key) -> bool {
        self.bucket(key).erase(key, &epoch::pin())
    }
    fn contains(&self, key: Key) -> bool {
        self.bucket(key).contains(key, &epoch::pin())
    }
    fn for_each(&self, visit: &mut dyn FnMut(Key)) {
        let guard = &epoch::pin();
        self.buckets
            .iter()
            .for_each(|bucket| bucket.for_each(guard, &mut *visit));
    }
}
