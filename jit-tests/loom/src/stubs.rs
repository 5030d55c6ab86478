//! Types that `src/kernel/direct.rs` names and these models don't need.

pub mod layout {
    /// No layout: the models run on one byte, which no code reads.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Layout;

    pub struct Offsets {
        pub v: u32,
    }

    impl Layout {
        pub const OWN: Layout = Layout;

        pub fn offsets(&self) -> Offsets {
            Offsets { v: 0 }
        }
    }

    pub struct HostMemory<'a>(&'a core::cell::Cell<u8>);

    impl HostMemory<'_> {
        pub fn has_layout(&self, _: Option<&Layout>) -> bool {
            true
        }

        pub fn addresses(&self) -> (*const u8, *mut u8) {
            (self.0.as_ptr(), self.0.as_ptr())
        }
    }

    impl<'a> HostMemory<'a> {
        pub fn new(byte: &'a core::cell::Cell<u8>) -> HostMemory<'a> {
            HostMemory(byte)
        }
    }
}

pub mod state {
    pub type Vec4 = [f32; 4];

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Exit {
        End,
        Fuel,
        BreakOutsideLoop,
        PastEnd,
        Cancelled,
    }
}
