//! Random draws from guest memory equal a slow reference, number for number. On 64-bit Linux the
//! memory ends at a page without access.
//!
//! The short form has 2,000 cases; `PICAJIT_FULL=1` runs 100,000, `PICAJIT_DRAWS=N` as many.

#[path = "draws/case.rs"]
mod case;
mod extent;

use case::{Bench, Numbers, Tally};
use picajit::engine::BackendChoice;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod guard {
    //! Memory that ends at a page without access.
    #![allow(unsafe_code)]

    use std::ffi::c_void;

    unsafe extern "C" {
        fn mmap(at: *mut c_void, length: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
        fn mprotect(at: *mut c_void, length: usize, access: i32) -> i32;
    }

    /// A multiple of any page size.
    const HALF: usize = 1 << 16;

    /// Two halves, the second without access.
    pub struct Guarded(*mut u8);

    impl Guarded {
        pub fn new() -> Guarded {
            const READ_WRITE: i32 = 3;
            const PRIVATE_ANONYMOUS: i32 = 0x22;
            // SAFETY: a new mapping at no address in particular; half of it loses all access.
            unsafe {
                let pages = mmap(std::ptr::null_mut(), 2 * HALF, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0);
                assert!(pages as isize != -1 && mprotect(pages.add(HALF), HALF, 0) == 0);
                Guarded(pages.cast())
            }
        }
    }

    impl super::case::Place for Guarded {
        fn place<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
            assert!(bytes.len() <= HALF);
            // SAFETY: the last bytes of the first half, which nothing else uses: a case places its
            // memory once, and its slices end with it.
            unsafe {
                let to = self.0.add(HALF - bytes.len());
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                std::slice::from_raw_parts(to, bytes.len())
            }
        }
    }
}

fn cases() -> u64 {
    if !extent::full() {
        extent::announce("short form: 2,000 cases; PICAJIT_FULL=1 runs 100,000");
    }
    extent::amount("PICAJIT_DRAWS", 2_000, 100_000)
}

#[test]
fn random_draws_equal_a_slow_reference() {
    // Without native code the batches of tier 0 are compared.
    let native = if cfg!(feature = "jit") { BackendChoice::NativeRequired } else { BackendChoice::NoNative };
    let (bench, mut tally, cases) = (Bench::new(native), Tally::default(), cases());
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    let place = guard::Guarded::new();
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    let place = case::AsIs;
    for seed in 1..=cases {
        if let Err(difference) = bench.run(&mut Numbers::new(&[], seed), &place, &mut tally) {
            panic!("case {seed}: {difference}");
        }
    }
    println!("{tally:?}");
    let Tally { draws, triangles, reused, early_exits, continued, cut_off, geometry_runs, geometry_groups, .. } = tally;
    let reached = [draws, triangles / 4, reused / 4, 25 * early_exits, 4 * continued, 4 * cut_off, geometry_runs];
    let Tally { short_lists, paddings: [aligned, odd @ ..], runs_kept, runs_replaced, .. } = tally;
    let rare = [8 * short_lists, 8 * runs_kept, 4 * runs_replaced, 8 * aligned].into_iter().chain(odd.map(|n| 25 * n));
    assert!(rare.min() >= Some(cases), "rare cases: {tally:?}");
    assert!(cfg!(not(feature = "jit")) || cases < 2_000 || geometry_groups > cases / 100, "groups: {tally:?}");
    assert!(reached.iter().all(|&n| n >= cases), "cases that reach everything: {tally:?}");
}
