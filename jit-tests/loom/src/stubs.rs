//! Types that `src/kernel/direct.rs` names and these models don't need.

pub mod layout {
    /// No layout: the models run on the types below.
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

    pub struct Host<'a>(&'a [core::cell::Cell<u8>]);

    impl Host<'_> {
        pub fn layout(&self) -> &Layout {
            &Layout
        }

        pub fn uniforms(&self) -> &[core::cell::Cell<u8>] {
            self.0
        }

        pub fn unit(&self) -> &[core::cell::Cell<u8>] {
            self.0
        }
    }
}

pub mod state {
    pub type Vec4 = [f32; 4];
    pub struct Uniforms;
    pub struct Unit;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Exit {
        End,
        Fuel,
        BreakOutsideLoop,
        PastEnd,
        Cancelled,
    }
}
