//! Helpers and their callers.

use std::sync::atomic::AtomicBool;

use super::*;

fn threads(count: usize) -> Pool {
    Pool::new(count, "test", || {}).unwrap()
}

/// Does pieces 0 to 19 with up to two helpers; all are done.
fn share_all(threads: &Pool) {
    let sum = AtomicUsize::new(0);
    threads.for_each_piece(3, 20, |piece| {
        sum.fetch_add(piece, Ordering::Relaxed);
    });
    assert_eq!(sum.load(Ordering::Relaxed), 190);
}

#[test]
fn every_piece_is_done_once() {
    let threads = threads(3);
    for round in 0..2_000 {
        let count = round % 37;
        let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        threads.for_each_piece(1 + round % 5, count, |piece| {
            done[piece].fetch_add(1, Ordering::Relaxed);
        });
        assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn helpers_come_and_are_waited_for() {
    let threads = threads(2);
    let (came, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let body = |number| {
        assert!(number < 2);
        came.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        left.fetch_add(1, Ordering::SeqCst);
    };
    threads.run(2, &body, || {
        while came.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
    });
    assert_eq!(left.load(Ordering::SeqCst), 2);
}

/// As in a child that was forked while a thread had the bell's lock.
#[test]
fn a_forked_child_works_alone() {
    let mut threads = threads(2);
    let process = threads.process;
    threads.process += 1;
    let mut done = false;
    {
        let _bell = lock(&threads.shared.bell);
        threads.run(2, &|_| unreachable!("there are no threads"), || done = true);
    }
    assert!(done);
    threads.process = process;
}

#[test]
fn a_caller_does_not_wait_for_threads_that_have_not_come() {
    let threads = threads(1);
    let (held, free) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let (threads, held, free) = (&threads, &held, &free);
        let hold = move |_| {
            held.store(true, Ordering::SeqCst);
            wait(free);
        };
        scope.spawn(move || threads.run(1, &hold, || wait(held)));
        wait(held);
        // The only helper is busy: this ends all the same, and so does a call inside a call.
        let pieces = AtomicUsize::new(0);
        threads.for_each_piece(2, 10, |_| {
            threads.for_each_piece(2, 10, |_| {
                pieces.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(pieces.load(Ordering::Relaxed), 100);
        free.store(true, Ordering::SeqCst);
    });
}

#[test]
fn many_callers_share_them() {
    let threads = threads(2);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    share_all(&threads);
                }
            });
        }
    });
}

#[test]
fn spin_credit_falls_when_tasks_are_rare_and_comes_back() {
    let after = |credit, came: &[bool]| {
        came.iter()
            .fold(credit, |credit, &came| credit_after(credit, came))
    };
    assert_eq!(after(SPIN_CREDIT, &[false; SPIN_CREDIT as usize]), 0);
    assert_eq!(after(0, &[true]), 2);
    assert!(
        after(1, &[false, true].repeat(9)) > 0,
        "every other is enough"
    );
    let rare = [[false; 9].as_slice(), &[true]].concat();
    assert!(after(SPIN_CREDIT, &rare.repeat(3)) < 3);
}

#[test]
fn sleeping_threads_come_again() {
    let threads = threads(3);
    for _ in 0..20 {
        thread::sleep(3 * LONGEST_SPIN);
        let came = AtomicUsize::new(0);
        let come = |_| _ = came.fetch_add(1, Ordering::SeqCst);
        threads.run(3, &come, || {
            while came.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
        });
    }
}

#[test]
fn callers_without_a_slot_work_alone() {
    let threads = threads(2);
    let open = AtomicUsize::new(0);
    let all = SLOTS + 2;
    thread::scope(|scope| {
        for _ in 0..all {
            scope.spawn(|| {
                threads.run(1, &|_| (), || {
                    open.fetch_add(1, Ordering::SeqCst);
                    while open.load(Ordering::SeqCst) < all {
                        thread::yield_now();
                    }
                });
            });
        }
    });
    assert_eq!(open.into_inner(), all);
    assert!(
        threads
            .shared
            .slots
            .iter()
            .all(|slot| slot.seats() == (0, 0))
    );
}

#[test]
fn a_panic_reaches_the_caller_and_breaks_nothing() {
    let threads = threads(2);
    let share = || {
        threads.for_each_piece(3, 100, |piece| {
            thread::sleep(Duration::from_micros(50));
            assert!(piece != 57);
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(share)).is_err());
    share_all(&threads);
}

#[test]
fn each_thread_gets_as_much_work_as_a_wake_takes() {
    let found: Vec<_> = [0.0, 9e3, 2.5e4, 1e6]
        .map(|work| worth(work, 1e4, 16))
        .into();
    assert_eq!(found, [1, 1, 2, 16]);
    assert_eq!(worth(1e9, 0.0, 0), 1);
}
