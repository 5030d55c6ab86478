//! Registers and uniforms in memory, and their [`Layout`] -> a [`HostMemory`], on which shaders run
//! in place: a host's own structures, or a [`Unit`] and [`Uniforms`].
//!
//! Invariant: both blocks have the layout's size and alignment.

#![allow(unsafe_code)]

use super::emitter::{HostEmitter, ToHost, VertexSlots};
use super::offsets::{Bools, GeometryOffsets, Layout, Offsets, VEC4};
use crate::isa::{FLOAT_UNIFORMS, INT_UNIFORMS};
use crate::state::{EmitState, Emitter, Registers, Uniforms, Unit, Vec4};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
#[cfg(feature = "capi")]
use std::ops::Range;
use std::ptr::eq;

/// Why memory does not fit a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostError {
    /// A block is shorter than in the layout.
    Short {
        /// `unit` or `uniforms`.
        block: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The layout's size in bytes.
        wanted: u32,
    },
    /// A block does not begin at a multiple of 16.
    Misaligned {
        /// `unit` or `uniforms`.
        block: &'static str,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Short { block, bytes, wanted } => {
                write!(f, "the {block} block has {bytes} bytes, not the {wanted} of the layout")
            }
            HostError::Misaligned { block } => write!(f, "the {block} block is not aligned to {VEC4} bytes"),
        }
    }
}

impl std::error::Error for HostError {}

/// A block of memory: registers or uniforms.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    start: *mut u8,
    bytes: usize,
    memory: PhantomData<&'a Cell<u8>>,
}

impl<'a> Block<'a> {
    /// The block of `bytes` bytes at `start`.
    ///
    /// # Safety
    /// The bytes are initialised and readable for `'a`, and if anything is [`put`](Block::put) there
    /// writable. No other thread uses them meanwhile, and no reference that excludes it.
    unsafe fn new(start: *mut u8, bytes: usize) -> Block<'a> {
        Block { start, bytes, memory: PhantomData }
    }

    /// The address of a field of `N` bytes, at an offset of the block's layout. [`Layout::new`] has
    /// checked that the field is inside the block and aligned.
    #[inline(always)]
    fn address<const N: usize>(self, at: u32) -> *mut [u8; N] {
        debug_assert!(at as usize + N <= self.bytes, "the field is inside the block");
        self.start.wrapping_add(at as usize).cast()
    }

    #[inline(always)]
    fn get<const N: usize>(self, at: u32) -> [u8; N] {
        // SAFETY: `at` is a field of the layout, so inside the block, which is readable.
        unsafe { self.address::<N>(at).read() }
    }

    #[inline(always)]
    fn put<const N: usize>(self, at: u32, bytes: [u8; N]) {
        // SAFETY: as in `get`. Only the unit's block is written, which is writable.
        unsafe { self.address::<N>(at).write(bytes) }
    }

    /// The file of `N` bytes at `at`.
    #[inline(always)]
    fn file<const N: usize>(self, at: u32) -> Vectors<'a> {
        let start: *mut Vec4 = self.address::<N>(at).cast();
        debug_assert!(start.is_aligned(), "the file is aligned");
        Vectors { start, count: N / size_of::<Vec4>(), memory: PhantomData }
    }
}

/// Which registers or uniforms.
#[derive(Clone, Copy)]
pub(crate) enum File {
    /// `v`
    Inputs,
    /// `r`
    Temps,
    /// `o` of the current bank.
    Outputs,
    /// `c`
    Uniforms,
}

/// The registers of one file.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<'a> {
    start: *mut Vec4,
    count: usize,
    memory: PhantomData<&'a Cell<Vec4>>,
}

impl Vectors<'_> {
    /// Register `n`.
    #[inline(always)]
    pub(crate) fn get(self, n: u8) -> Vec4 {
        assert!(usize::from(n) < self.count);
        // SAFETY: inside the file, which is inside its block and aligned.
        unsafe { self.start.wrapping_add(n.into()).read() }
    }

    /// Sets register `n`, which is of the unit.
    #[inline(always)]
    pub(crate) fn set(self, n: u8, value: Vec4) {
        assert!(usize::from(n) < self.count);
        // SAFETY: as in `get`; the unit is writable.
        unsafe { self.start.wrapping_add(n.into()).write(value) }
    }
}

/// A unit's registers and the uniforms, where a run reads and writes them: in a host's memory or
/// in a [`Unit`] and [`Uniforms`]. A host has pointers of its own to the same bytes. It must not use
/// them on other threads while a shader runs.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory<'a> {
    layout: &'a Layout,
    unit: Block<'a>,
    uniforms: Block<'a>,
}

/// The bytes of all flags.
#[derive(Clone, Copy)]
pub(crate) struct FlagBytes([u8; 4]);

/// Which flags a run sets.
#[derive(Clone, Copy, Default)]
pub(crate) struct SetFlags {
    /// Those of CMP and LITP.
    pub(crate) by_cmp: bool,
    /// Those of SETEMIT.
    pub(crate) by_setemit: bool,
}

/// The layout of a [`Unit`] and [`Uniforms`], at an address that tells it from others.
static OWN: Layout = Layout::OWN;

impl<'a> HostMemory<'a> {
    /// The blocks of registers and of uniforms, laid out as `layout`. Both may be the same memory.
    #[inline]
    pub fn new(
        layout: &'a Layout,
        unit: &'a [Cell<u8>],
        uniforms: &'a [Cell<u8>],
    ) -> Result<HostMemory<'a>, HostError> {
        let Offsets { unit_bytes, uniforms_bytes, .. } = layout.0;
        for (block, memory, wanted) in [("unit", unit, unit_bytes), ("uniforms", uniforms, uniforms_bytes)] {
            if memory.len() < wanted as usize {
                return Err(HostError::Short { block, bytes: memory.len(), wanted });
            }
            if !memory.as_ptr().addr().is_multiple_of(VEC4 as usize) {
                return Err(HostError::Misaligned { block });
            }
        }
        // SAFETY: cells that live for `'a`. They are not `Sync`, and neither is the result.
        let block = |memory: &'a [Cell<u8>], bytes: u32| unsafe {
            Block::new(memory.as_ptr().cast_mut().cast(), bytes as usize)
        };
        Ok(HostMemory { layout, unit: block(unit, unit_bytes), uniforms: block(uniforms, uniforms_bytes) })
    }

    /// A unit and uniforms, without the unit's slots.
    #[inline(always)]
    pub(crate) fn of(uniforms: &'a Uniforms, unit: &'a mut Unit) -> HostMemory<'a> {
        // SAFETY: references that live for `'a`.
        unsafe { HostMemory::of_pointers(uniforms, unit) }
    }

    /// # Safety
    /// Both pointers are valid for `'a`, and no reference to the unit's registers is used meanwhile.
    #[inline(always)]
    unsafe fn of_pointers(uniforms: *const Uniforms, unit: *mut Unit) -> HostMemory<'a> {
        let Offsets { unit_bytes, uniforms_bytes, .. } = OWN.0;
        // SAFETY: the caller's promise. The block of the unit ends with its last register, so that
        // neither has padding. Flags are written as 0 or 1. Uniforms are only read.
        unsafe {
            HostMemory {
                layout: &OWN,
                unit: Block::new(unit.cast(), unit_bytes as usize),
                uniforms: Block::new(uniforms.cast_mut().cast(), uniforms_bytes as usize),
            }
        }
    }

    /// Runs `work` on the registers of `unit`. It sends the vertices of a geometry program to the
    /// unit's slots, which `preserve_slots` restores, and triangles to `emitter`.
    pub(crate) fn with_unit<T>(
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        preserve_slots: bool,
        work: impl FnOnce(&HostMemory<'_>, &mut dyn HostEmitter) -> T,
    ) -> T {
        let unit: *mut Unit = unit;
        // SAFETY: the reference above, which is not used below. A layout has no offset for slots, and
        // the block of `Layout::OWN` ends before them.
        let slots = unsafe { &mut (*unit).slots };
        // SAFETY: from references that outlive `work`.
        let memory = unsafe { HostMemory::of_pointers(uniforms, unit) };
        let mut slots = VertexSlots { slots, emitter, preserve: preserve_slots, before: None };
        let result = work(&memory, &mut slots);
        slots.restore();
        result
    }

    /// The layout.
    pub fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Whether code for this layout runs here; `None` is the layout of a [`Unit`] and [`Uniforms`].
    #[inline(always)]
    pub(crate) fn has_layout(&self, layout: Option<&Layout>) -> bool {
        let layout = layout.unwrap_or(&OWN);
        eq(layout, self.layout) || self.has_equal_layout(layout)
    }

    /// [`HostMemory::has_layout`] at another address.
    #[cold]
    #[inline(never)]
    fn has_equal_layout(&self, layout: &Layout) -> bool {
        layout == self.layout
    }

    /// The addresses of the uniforms and of the unit, for code that was compiled for the layout.
    #[inline(always)]
    pub(crate) fn addresses(&self) -> (*const u8, *mut u8) {
        (self.uniforms.start, self.unit.start)
    }

    /// The addresses that the unit and the uniforms occupy.
    #[cfg(feature = "capi")]
    pub(crate) fn extents(&self) -> [Range<usize>; 2] {
        [self.unit, self.uniforms].map(|block| block.start.addr()..block.start.addr() + block.bytes)
    }

    /// Runs `work` on copies of registers and uniforms, then stores the registers, unless
    /// `preserve_unit`.
    // Not inlined: the copies take kilobytes of stack, which a caller's fast path must not reserve.
    #[inline(never)]
    pub(crate) fn with_copies<T>(
        &self,
        emitter: &mut dyn HostEmitter,
        preserve_unit: bool,
        work: impl FnOnce(&Uniforms, &mut Unit, &mut dyn Emitter) -> T,
    ) -> T {
        let (mut unit, uniforms) = self.load();
        let result = work(&uniforms, &mut unit, &mut ToHost(emitter));
        if !preserve_unit {
            self.store(&unit);
        }
        result
    }

    /// Runs `work`, and then restores the registers, to the byte.
    #[inline(never)]
    pub(crate) fn preserving_unit<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut before = Unit::new();
        self.load_unit(&mut before);
        let flags = self.flag_bytes();
        let result = work();
        self.store(&before);
        self.set_flag_bytes(flags, SetFlags::default());
        result
    }

    /// Copies of registers and uniforms. Vertex slots, which no layout has, are zero, as is any state
    /// without an offset.
    pub fn load(&self) -> (Unit, Uniforms) {
        let (mut unit, mut uniforms) = (Unit::new(), Uniforms::new());
        self.load_unit(&mut unit);
        copy_file(self.file(File::Uniforms), &mut uniforms.c);
        (0..).zip(&mut uniforms.i).for_each(|(n, to)| *to = self.int(n));
        uniforms.b = self.bools();
        (unit, uniforms)
    }

    /// [`HostMemory::load`] of the unit alone, into a new one.
    fn load_unit(&self, unit: &mut Unit) {
        copy_file(self.file(File::Inputs), &mut unit.v);
        copy_file(self.file(File::Temps), &mut unit.r);
        [unit.a0[0], unit.a0[1], unit.al] = self.address_registers();
        unit.cmp = self.flags().map(|flag| flag != 0);
        for (to, at) in unit.o.iter_mut().zip(self.banks()) {
            copy_file(self.unit.file::<{ size_of::<Registers>() }>(at), to);
        }
        if let Some(g) = &self.layout.0.geometry {
            [unit.bank] = self.unit.get(g.bank);
            unit.setemit = self.setemit(g);
        }
    }

    /// Writes a unit's registers to the memory.
    pub fn store(&self, unit: &Unit) {
        let copy = |from: &[Vec4], file: Vectors<'_>| (0..).zip(from).for_each(|(n, from)| file.set(n, *from));
        copy(&unit.v, self.file(File::Inputs));
        copy(&unit.r, self.file(File::Temps));
        let [x, y] = unit.a0;
        [x, y, unit.al].into_iter().enumerate().for_each(|(n, value)| self.set_address_register(n, value));
        self.set_flags(unit.cmp.map(u8::from));
        // Where there is one bank, it is the current one.
        let banks = match &self.layout.0.geometry {
            None => [unit.outputs(), unit.outputs()],
            Some(g) => {
                self.unit.put(g.bank, [unit.bank]);
                unit.o.each_ref()
            }
        };
        banks
            .into_iter()
            .zip(self.banks())
            .for_each(|(from, at)| copy(from, self.unit.file::<{ size_of::<Registers>() }>(at)));
        self.set_emit_state(unit.setemit);
    }

    /// Offsets of the output banks, of which a layout without geometry has one.
    fn banks(&self) -> impl Iterator<Item = u32> + use<> {
        let o = &self.layout.0;
        [Some(o.o), o.geometry.map(|g| o.o + g.bank_stride)].into_iter().flatten()
    }

    /// Sets the `v` registers of `mask` from `inputs`, as far as `inputs` reaches.
    #[inline]
    pub fn take_inputs(&self, mask: u16, inputs: &[Vec4]) {
        let file = self.file(File::Inputs);
        for_each(mask, inputs.len(), |n| file.set(n as u8, inputs[n]));
    }

    /// Copies the current outputs of `mask` to `outputs`, as far as `outputs` reaches.
    #[inline]
    pub fn copy_outputs(&self, mask: u16, outputs: &mut [Vec4]) {
        let file = self.file(File::Outputs);
        for_each(mask, outputs.len(), |n| outputs[n] = file.get(n as u8));
    }

    /// A file, for access to several of its registers. Only those of the unit may be set.
    #[inline(always)]
    pub(crate) fn file(&self, file: File) -> Vectors<'a> {
        const UNIT: usize = size_of::<Registers>();
        const UNIFORMS: usize = size_of::<[Vec4; FLOAT_UNIFORMS]>();
        let o = &self.layout.0;
        match file {
            File::Inputs => self.unit.file::<UNIT>(o.v),
            File::Temps => self.unit.file::<UNIT>(o.r),
            File::Outputs => self.unit.file::<UNIT>(self.current_bank()),
            File::Uniforms => self.uniforms.file::<UNIFORMS>(o.c),
        }
    }

    /// Sets slots from registers of a file; each pair is a slot and a register's number.
    #[inline(always)] // callers name the file
    pub(crate) fn load_slots(&self, file: File, pairs: &[(u8, u8)], slots: &mut [Vec4]) {
        let file = self.file(file);
        for &(slot, n) in pairs {
            slots[usize::from(slot)] = file.get(n);
        }
    }

    /// Sets registers of a file of the unit from slots; pairs as in [`HostMemory::load_slots`].
    #[inline(always)] // as above
    pub(crate) fn store_slots(&self, file: File, pairs: &[(u8, u8)], slots: &[Vec4]) {
        let file = self.file(file);
        for &(slot, n) in pairs {
            file.set(n, slots[usize::from(slot)]);
        }
    }

    /// Offset of the current output bank.
    #[inline(always)]
    fn current_bank(&self) -> u32 {
        let o = &self.layout.0;
        match &o.geometry {
            Some(g) if self.unit.get::<1>(g.bank)[0] & 1 != 0 => o.o + g.bank_stride,
            _ => o.o,
        }
    }

    fn setemit(&self, g: &GeometryOffsets) -> EmitState {
        let [[vertex], [primitive], [winding]] = [g.vertex, g.primitive, g.winding].map(|at| self.unit.get(at));
        EmitState { vertex, primitive: primitive != 0, winding: winding != 0 }
    }

    /// All `o` registers of the current bank.
    pub(crate) fn outputs(&self) -> Registers {
        let file = self.file(File::Outputs);
        std::array::from_fn(|n| file.get(n as u8))
    }

    /// All `o` registers of both banks, the current one first.
    #[cfg(feature = "jit")]
    pub(crate) fn banks_from_current(&self) -> [Registers; 2] {
        let current = self.current_bank();
        let other = self.banks().find(|&at| at != current).unwrap_or(current);
        [current, other].map(|at| {
            let file = self.unit.file::<{ size_of::<Registers>() }>(at);
            std::array::from_fn(|n| file.get(n as u8))
        })
    }

    /// The parameters of the next EMIT.
    #[cfg(feature = "jit")]
    pub(crate) fn emit_state(&self) -> EmitState {
        self.layout.0.geometry.map_or(EmitState::default(), |g| self.setemit(&g))
    }

    /// Integer uniform `n`.
    pub(crate) fn int(&self, n: u8) -> [u8; 4] {
        assert!(usize::from(n) < INT_UNIFORMS);
        self.uniforms.get(self.layout.0.i + 4 * u32::from(n))
    }

    /// The boolean uniforms; bit n is `bn`.
    pub(crate) fn bools(&self) -> u16 {
        match self.layout.0.b {
            Bools::Mask(at) => u16::from_ne_bytes(self.uniforms.get(at)),
            Bools::Bytes(at) => {
                let bytes: [u8; 16] = self.uniforms.get(at);
                (0..16).filter(|&n| bytes[n] != 0).fold(0, |mask, n| mask | 1 << n)
            }
        }
    }

    /// `a0.x`, `a0.y` and `aL`.
    pub(crate) fn address_registers(&self) -> [i32; 3] {
        let o = &self.layout.0;
        [o.a0[0], o.a0[1], o.al].map(|at| i32::from_ne_bytes(self.unit.get(at)))
    }

    /// Sets `a0.x`, `a0.y` or `aL` (0, 1, 2).
    pub(crate) fn set_address_register(&self, n: usize, value: i32) {
        let o = &self.layout.0;
        self.unit.put([o.a0[0], o.a0[1], o.al][n], value.to_ne_bytes());
    }

    /// The bytes of the flags: nonzero is true.
    pub(crate) fn flags(&self) -> [u8; 2] {
        self.layout.0.cmp.map(|at| self.unit.get::<1>(at)[0])
    }

    /// Sets both flags, to bytes that [`HostMemory::flags`] gave, or to 0 or 1.
    pub(crate) fn set_flags(&self, flags: [u8; 2]) {
        self.layout.0.cmp.into_iter().zip(flags).for_each(|(at, flag)| self.unit.put(at, [flag]));
    }

    /// The bytes of all flags, for [`HostMemory::set_flag_bytes`].
    pub(crate) fn flag_bytes(&self) -> FlagBytes {
        FlagBytes(self.layout.flags().map(|at| at.map_or(0, |at| self.unit.get::<1>(at)[0])))
    }

    /// Sets all flags except for those of `set`: [`HostMemory::store`] writes 0 and 1, and the host
    /// may have other bytes in flags that a run does not set.
    pub(crate) fn set_flag_bytes(&self, FlagBytes(bytes): FlagBytes, set: SetFlags) {
        let keeps = [!set.by_cmp, !set.by_cmp, !set.by_setemit, !set.by_setemit];
        for ((at, byte), _) in self.layout.flags().into_iter().zip(bytes).zip(keeps).filter(|(_, keeps)| *keeps) {
            at.into_iter().for_each(|at| self.unit.put(at, [byte]));
        }
    }

    /// `SETEMIT`, if the layout has its state.
    pub(crate) fn set_emit_state(&self, how: EmitState) {
        if let Some(g) = &self.layout.0.geometry {
            self.unit.put(g.vertex, [how.vertex]);
            self.unit.put(g.primitive, [u8::from(how.primitive)]);
            self.unit.put(g.winding, [u8::from(how.winding)]);
        }
    }

    /// `EMIT`: sends the outputs with the state of the last `SETEMIT`, and changes the output bank.
    /// Without that state in the layout both are the default.
    pub(crate) fn emit(&self, emitter: &mut dyn HostEmitter) {
        let geometry = &self.layout.0.geometry;
        emitter.emit(&self.outputs(), geometry.map_or(EmitState::default(), |g| self.setemit(&g)));
        if let Some(g) = geometry {
            let [bank] = self.unit.get(g.bank);
            self.unit.put(g.bank, [bank & 1 ^ 1]);
        }
    }
}

/// Copies the first registers of a file.
fn copy_file(file: Vectors<'_>, to: &mut [Vec4]) {
    (0..).zip(to).for_each(|(n, to)| *to = file.get(n));
}

/// Calls `f` with the index of each set bit below `len`.
#[inline(always)]
fn for_each(mask: u16, len: usize, mut f: impl FnMut(usize)) {
    let mut left = u32::from(mask) & !(u32::MAX << len.min(16));
    while left != 0 {
        f(left.trailing_zeros() as usize);
        left &= left - 1;
    }
}
