//! The ordered list of Harris and Michael: a tag in its `next` removes a node; then a thread that
//! finds the tag unlinks and retires the node.
//!
//! Invariants: keys ascend; a node whose `next` is tagged is never linked again; a node is retired
//! once, by the thread whose exchange unlinked it. Thread-safety: any thread, pinned.
//! Source: [Michael02].

use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const REMOVED: usize = 1;

pub type Key = i64;

struct Node {
    key: Key,
    _value: i64, // makes nodes as large as those of the other libraries
    next: Atomic<Node>,
}

pub struct List {
    head: Atomic<Node>,
}

/// The place where a key is, or would be.
struct Place<'g> {
    link: &'g Atomic<Node>, // points to `node`
    node: Shared<'g, Node>, // the first node that is not less than the key
    found: bool,
}

impl List {
    pub fn new() -> Self {
        List {
            head: Atomic::null(),
        }
    }

    pub fn insert(&self, key: Key, guard: &Guard) -> bool {
        let mut place = self.find(key, guard);
        if place.found {
            return false;
        }
        let mut new = Owned::new(Node {
            key,
            _value: key,
            next: Atomic::null(),
        });
        loop {
            new.next.store(place.node, Relaxed); // the exchange below publishes it
            // Release pairs with the acquire of find.
            match place
                .link
                .compare_exchange(place.node, new, Release, Relaxed, guard)
            {
                Ok(_) => return true,
                Err(lost) => new = lost.new,
            }
            place = self.find(key, guard);
            if place.found {
                return false;
            }
        }
    }

    pub fn erase(&self, key: Key, guard: &Guard) -> bool {
        loop {
            let place = self.find(key, guard);
            if !place.found {
                return false;
            }
            let node = unsafe { place.node.deref() }; // pinned, so a linked node stays readable
            let next = node.next.load(Acquire, guard);
            if next.tag() == REMOVED {
                continue;
            }
            let removed = next.with_tag(REMOVED);
            if node
                .next
                .compare_exchange(next, removed, Release, Relaxed, guard)
                .is_err()
            {
                continue;
            }
            if !unlink(&place, next, guard) {
                self.find(key, guard); // unlinks it
            }
            return true;
        }
    }

    pub fn contains(&self, key: Key, guard: &Guard) -> bool {
        self.find(key, guard).found
    }

    /// Visits every key in order. Requires that no other thread uses the list.
    pub fn for_each(&self, guard: &Guard, mut visit: impl FnMut(Key)) {
        let mut at = self.head.load(Acquire, guard);
        while let Some(node) = unsafe { at.as_ref() } {
            let next = node.next.load(Acquire, guard);
            if next.tag() != REMOVED {
                visit(node.key);
            }
            at = next.with_tag(0);
        }
    }

    /// Unlinks the removed nodes that it passes.
    fn find<'g>(&'g self, key: Key, guard: &'g Guard) -> Place<'g> {
        'restart: loop {
            let mut place = Place {
                link: &self.head,
                node: self.head.load(Acquire, guard),
                found: false,
            };
            while let Some(node) = unsafe { place.node.as_ref() } {
                let next = node.next.load(Acquire, guard);
                if next.tag() == REMOVED {
                    if !unlink(&place, next.with_tag(0), guard) {
                        continue 'restart;
                    }
                } else if node.key >= key {
                    place.found = node.key == key;
                    return place;
                } else {
                    place.link = &node.next;
                }
                place.node = next.with_tag(0);
            }
            return place;
        }
    }
}

/// Unlinks a removed node and retires it; false if its predecessor changed.
fn unlink(place: &Place, next: Shared<Node>, guard: &Guard) -> bool {
    let unlinked = place
        .link
        .compare_exchange(place.node, next, Release, Relaxed, guard)
        .is_ok();
    if unlinked {
        unsafe { guard.defer_destroy(place.node) };
    }
    unlinked
}

impl Drop for List {
    fn drop(&mut self) {
        let mut at = std::mem::replace(&mut self.head, Atomic::null());
        while let Some(node) = unsafe { at.try_into_owned() } {
            at = node.into_box().next;
        }
    }
}
