//! The nodes that the kernel knows: numbers with reference counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fs::{Errno, Node, Result};

/// How many locks share the table. The kernel's requests come from a handful of threads.
const SHARDS: usize = 16;

/// A table of the value of each node number.
#[derive(Debug)]
pub(crate) struct Nodes<T> {
    shards: [Mutex<HashMap<Node, Known<T>>>; SHARDS],
}

#[derive(Debug)]
struct Known<T> {
    value: Arc<T>,
    references: u64,
}

impl<T> Nodes<T> {
    /// A table that knows nothing.
    pub(crate) fn new() -> Self {
        Nodes {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    fn shard(&self, node: Node) -> MutexGuard<'_, HashMap<Node, Known<T>>> {
        let shard = usize::try_from(node % SHARDS as u64).expect("less than SHARDS");
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `node`; `ESTALE` if the kernel should not know it.
    pub(crate) fn get(&self, node: Node) -> Result<Arc<T>> {
        match self.shard(node).get(&node) {
            Some(known) => Ok(known.value.clone()),
            None => Err(Errno::STALE),
        }
    }

    /// Counts one more reference to `node`, which is `value` unless it was known before. Returns
    /// the value that it has now.
    pub(crate) fn refer(&self, node: Node, value: T) -> Arc<T> {
        match self.shard(node).entry(node) {
            Entry::Occupied(mut known) => {
                known.get_mut().references += 1;
                known.get().value.clone()
            }
            Entry::Vacant(free) => {
                let value = Arc::new(value);
                free.insert(Known {
                    value: value.clone(),
                    references: 1,
                });
                value
            }
        }
    }

    /// Drops `count` references, and forgets the node with the last.
    pub(crate) fn forget(&self, node: Node, count: u64) {
        let mut shard = self.shard(node);
        let forgotten = match shard.entry(node) {
            Entry::Occupied(mut known) => {
                let left = known.get().references.saturating_sub(count);
                known.get_mut().references = left;
                (left == 0).then(|| known.remove())
            }
            Entry::Vacant(_) => None,
        };
        // Dropping a value closes a file, which must not keep others waiting.
        drop(shard);
        drop(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reference_forgets() {
        let nodes = Nodes::new();
        assert_eq!(*nodes.refer(5, "five"), "five");
        assert_eq!(*nodes.refer(5, "other"), "five", "known under this number");
        nodes.forget(5, 1);
        assert_eq!(nodes.get(5).as_deref(), Ok(&"five"));
        nodes.forget(5, 1);
        assert_eq!(nodes.get(5), Err(Errno::STALE));
        nodes.forget(5, 1);
    }
}
