//! Order, ends and dropped objects of jobs; values that are computed once.

use super::*;
use std::sync::atomic::AtomicUsize;
use std::sync::{LazyLock, mpsc};

static COLD: LazyLock<Hotness> = LazyLock::new(Hotness::default);

fn count(done: &Arc<AtomicUsize>, by: usize) -> Job {
    let done = done.clone();
    Box::new(move || {
        done.fetch_add(by, Ordering::Relaxed);
    })
}

/// Keeps a thread of the queue busy until the result is used.
fn block(queue: &Queue) -> mpsc::Sender<()> {
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let wait = move || {
        begun.send(()).expect("heard");
        may_go.recv().expect("told");
    };
    queue.push(Priority::TierUp(&COLD), Box::new(wait));
    has_begun.recv().expect("it begins");
    go
}

#[test]
fn wait_returns_after_all_jobs_including_jobs_pushed_by_jobs() {
    for threads in [1, 4] {
        let background = Background::new(threads);
        let done = Arc::new(AtomicUsize::new(0));
        for n in 0..100 {
            let (done, queue) = (done.clone(), background.queue().clone());
            let job = move || {
                done.fetch_add(1, Ordering::Relaxed);
                // Every second job pushes another one.
                if n % 2 == 0 {
                    assert!(queue.push(Priority::TierUp(&COLD), count(&done, 1)));
                }
            };
            assert!(background.queue().push(Priority::TierUp(&COLD), Box::new(job)));
        }
        background.queue().wait();
        assert_eq!(done.load(Ordering::Relaxed), 150, "{threads} threads");
    }
}

#[test]
fn a_panicking_job_does_not_end_the_thread() {
    let background = Background::new(1);
    // `resume_unwind` skips the panic hook, which would print a message.
    assert!(
        background
            .queue()
            .push(Priority::TierUp(&COLD), Box::new(|| std::panic::resume_unwind(Box::new("on purpose"))))
    );
    let (send, receive) = mpsc::channel();
    assert!(background.queue().push(Priority::TierUp(&COLD), Box::new(move || send.send(7).expect("heard"))));
    background.queue().wait();
    assert_eq!(receive.try_recv(), Ok(7));
}

#[test]
fn a_queue_without_threads_is_closed_and_wait_returns_at_once() {
    let background = Background::new(0);
    assert!(!background.queue().open() && !background.queue().push(Priority::TierUp(&COLD), Box::new(|| ())));
    background.queue().wait();
}

#[test]
fn dropping_the_threads_drops_waiting_jobs_and_joins_running_ones() {
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let done = Arc::new(AtomicUsize::new(0));
    let background = Background::new(1);
    let queue = background.queue().clone();
    let first = done.clone();
    queue.push(
        Priority::TierUp(&COLD),
        Box::new(move || {
            begun.send(()).expect("heard");
            may_go.recv().expect("told");
            first.fetch_add(1, Ordering::Relaxed);
        }),
    );
    queue.push(Priority::TierUp(&COLD), count(&done, 10));
    has_begun.recv().expect("it begins");
    let waiting = queue.clone();
    let waiter = thread::spawn(move || waiting.wait());
    let end = thread::spawn(move || drop(background));
    while queue.open() {
        thread::yield_now();
    }
    waiter.join().expect("wait returns although a job was dropped");
    go.send(()).expect("it waits");
    end.join().expect("it ends");
    assert_eq!(done.load(Ordering::Relaxed), 1);
    assert_eq!(Arc::strong_count(&done), 1, "the other job was dropped");
    assert!(!queue.push(Priority::TierUp(&COLD), Box::new(|| ())));
}

#[test]
fn a_job_may_wait_for_its_queue_and_drop_its_threads() {
    let background = Background::new(2);
    let queue = background.queue().clone();
    let (send, receive) = mpsc::channel::<Background>();
    let (done, is_done) = mpsc::channel();
    let inner = queue.clone();
    queue.push(
        Priority::TierUp(&COLD),
        Box::new(move || {
            inner.wait();
            drop(receive.recv().expect("sent"));
            done.send(()).expect("heard");
        }),
    );
    send.send(background).expect("taken");
    is_done.recv().expect("a thread does not wait for itself");
    queue.wait();
}

#[test]
fn hot_jobs_run_first_and_tier_ups_precede_improvements() {
    let background = Background::new(1);
    let queue = background.queue();
    let go = block(queue);
    let order = Arc::new(Mutex::new(Vec::new()));
    let push = |name: &'static str, priority: Priority<'_>| {
        let order = order.clone();
        queue.push(priority, Box::new(move || order.lock().expect("no panic").push(name)));
    };
    let hotnesses: [Hotness; 4] = Default::default();
    push("batch", Priority::Improve(&hotnesses[0]));
    push("hot batch", Priority::Improve(&hotnesses[1]));
    push("cold", Priority::TierUp(&hotnesses[2]));
    push("cold too", Priority::TierUp(&hotnesses[2]));
    push("hot", Priority::TierUp(&hotnesses[3]));
    // Hotness counts while a job waits.
    hotnesses[0].add(50);
    hotnesses[1].add(1000);
    hotnesses[2].add(10);
    hotnesses[3].add(11);
    go.send(()).expect("it waits");
    queue.wait();
    let want = ["hot", "cold", "cold too", "hot batch", "batch"];
    assert_eq!(*order.lock().expect("no panic"), want);
}

#[test]
fn jobs_of_dropped_objects_do_not_pile_up() {
    let background = Background::new(1);
    let queue = background.queue();
    let go = block(queue);
    let (kept, done) = (Hotness::default(), Arc::new(AtomicUsize::new(0)));
    for n in 0..10 * MIN_SWEEP {
        let (hotness, of_kept) = (Hotness::default(), n % 10 == 0);
        let hotness = if of_kept { &kept } else { &hotness };
        queue.push(Priority::TierUp(hotness), count(&done, if of_kept { 1 } else { 1 << 20 }));
        let waiting = queue.state().tier_ups.waiting.len();
        assert!(waiting <= MIN_SWEEP.max(2 * (n / 10 + 1)) + 1, "{waiting} after {n}");
    }
    go.send(()).expect("it waits");
    queue.wait();
    let (kept, dropped) = (done.load(Ordering::Relaxed) % (1 << 20), done.load(Ordering::Relaxed) >> 20);
    assert!(kept == MIN_SWEEP && dropped <= MIN_SWEEP, "{kept} and {dropped} ran");
    assert_eq!(Arc::strong_count(&done), 1);
}

struct Owner {
    lazy: Lazy<u32>,
    computed: AtomicUsize,
    calls: AtomicUsize,
}

fn owner() -> Arc<Owner> {
    Arc::new(Owner { lazy: Lazy::default(), computed: AtomicUsize::new(0), calls: AtomicUsize::new(0) })
}

fn compute(owner: &Owner) -> &u32 {
    owner.calls.fetch_add(1, Ordering::Relaxed);
    owner.lazy.get_or_init(|| {
        owner.computed.fetch_add(1, Ordering::Relaxed);
        7
    })
}

fn counts(owner: &Owner) -> (usize, usize) {
    (owner.calls.load(Ordering::Relaxed), owner.computed.load(Ordering::Relaxed))
}

fn request(owner: &Arc<Owner>, queue: Option<&Queue>) {
    owner.lazy.request(owner, queue.map(|queue| (queue, Priority::TierUp(&COLD))), |owner| {
        compute(owner);
    });
}

#[test]
fn only_the_first_request_runs_and_without_threads_it_runs_here() {
    for queue in [None, Some(Queue::default())] {
        let owner = owner();
        assert!(!owner.lazy.requested() && owner.lazy.get().is_none());
        (0..3).for_each(|_| request(&owner, queue.as_ref()));
        assert!(owner.lazy.requested());
        assert_eq!((owner.lazy.get(), counts(&owner)), (Some(&7), (1, 1)));
    }
}

#[test]
fn a_request_for_an_existing_value_runs_here() {
    let background = Background::new(1);
    let owner = owner();
    compute(&owner);
    assert!(!owner.lazy.requested());
    request(&owner, Some(background.queue()));
    assert_eq!(counts(&owner), (2, 1));
}

#[test]
fn a_requested_value_is_computed_by_one_job_unless_its_owner_is_dropped() {
    let background = Background::new(1);
    let queue = background.queue();
    let (go, may_go) = mpsc::channel::<()>();
    queue.push(Priority::TierUp(&COLD), Box::new(move || may_go.recv().expect("told")));
    let (kept, dropped) = (owner(), owner());
    let calls = Arc::downgrade(&dropped);
    assert_eq!(kept.lazy.get_or_request(&kept, Some((queue, Priority::TierUp(&COLD))), compute), None);
    assert_eq!(dropped.lazy.get_or_request(&dropped, Some((queue, Priority::TierUp(&COLD))), compute), None);
    request(&kept, Some(queue));
    drop(dropped);
    assert!(calls.upgrade().is_none(), "the job holds its owner weakly");
    go.send(()).expect("it waits");
    queue.wait();
    assert_eq!(
        (kept.lazy.get_or_request(&kept, Some((queue, Priority::TierUp(&COLD))), compute), counts(&kept)),
        (Some(&7), (1, 1))
    );
}

#[test]
fn a_value_requested_before_the_threads_ended_is_computed_by_the_next_caller() {
    let background = Background::new(1);
    let queue = background.queue().clone();
    let go = block(&queue);
    let owner = owner();
    request(&owner, Some(&queue));
    let end = thread::spawn(move || drop(background));
    while queue.open() {
        thread::yield_now();
    }
    go.send(()).expect("it waits");
    end.join().expect("it ends");
    assert_eq!(owner.lazy.get(), None);
    assert_eq!(owner.lazy.get_or_request(&owner, Some((&queue, Priority::TierUp(&COLD))), compute), Some(&7));
}
