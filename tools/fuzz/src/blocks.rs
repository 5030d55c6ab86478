//! Numbered blocks of work -> their results in order, made on several threads.
//!
//! Invariant: the results depend on the work, not on the threads. The work itself is opaque here.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Programs of a block.
const PROGRAMS: u64 = 32;

/// Number of blocks that hold `programs` programs.
pub(super) fn count(programs: u64) -> u64 {
    programs.div_ceil(PROGRAMS)
}

/// The programs of block `n`.
pub(super) fn programs(n: u64, programs: u64) -> Range<u64> {
    n * PROGRAMS..programs.min(n.saturating_add(1).saturating_mul(PROGRAMS))
}

/// Runs `work` for each block below `count` while `begin` returns true. Passes the results to
/// `take` on this thread, in block order, until `take` breaks. A block that has begun is finished,
/// so that there are no gaps.
pub(super) fn in_order<T: Send, B>(
    count: u64,
    threads: usize,
    begin: impl Fn() -> bool + Sync,
    work: impl Fn(u64) -> T + Sync,
    mut take: impl FnMut(T) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let next = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (sender, next, begin, work) = (sender.clone(), &next, &begin, &work);
            scope.spawn(move || {
                while begin() {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone once `take` has broken off.
                    if n >= count || sender.send((n, work(n))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut wanted) = (BTreeMap::new(), 0);
        for (n, result) in receiver {
            waiting.insert(n, result);
            while let Some(result) = waiting.remove(&wanted) {
                take(result)?;
                wanted += 1;
            }
        }
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(threads: usize, until: u64) -> (Vec<u64>, ControlFlow<u64>) {
        let mut taken = Vec::new();
        let take = |n| {
            taken.push(n);
            if n < until { ControlFlow::Continue(()) } else { ControlFlow::Break(n) }
        };
        let ended = in_order(100, threads, || true, |n| n * n, take);
        (taken, ended)
    }

    #[test]
    fn results_come_in_order_up_to_a_break() {
        let all: Vec<u64> = (0..100).map(|n| n * n).collect();
        for threads in [0, 1, 2, 5] {
            assert_eq!(squares(threads, u64::MAX), (all.clone(), ControlFlow::Continue(())));
            assert_eq!(squares(threads, 49), (all[..8].to_vec(), ControlFlow::Break(49)));
        }
    }

    #[test]
    fn begun_blocks_are_taken_without_gaps() {
        let begun = AtomicU64::new(0);
        let mut taken = Vec::new();
        let begin = || begun.fetch_add(1, Ordering::Relaxed) < 10;
        let take = |n| {
            taken.push(n);
            ControlFlow::<()>::Continue(())
        };
        let ended = in_order(100, 3, begin, |n| n, take);
        assert_eq!((taken, ended), ((0..10).collect(), ControlFlow::Continue(())));
    }

    #[test]
    fn blocks_hold_every_program_once() {
        assert_eq!((count(0), count(32), count(33)), (0, 1, 2));
        assert_eq!((programs(0, 33), programs(1, 33)), (0..32, 32..33));
        assert_eq!(programs(count(u64::MAX) - 1, u64::MAX).end, u64::MAX);
    }
}
