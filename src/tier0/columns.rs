//! Operations on columns: a register component of up to [`LANES`] vertices is one column, and an
//! operation is dispatched once for all of them.
//!
//! Invariant: an operation computes into spare columns, which then change places with those of the
//! destination. So sources are never overwritten early, whatever their swizzles, and nothing is
//! copied. Where only some lanes are active, new and old columns are blended instead.

use super::arith::{Format, Lanes, compare, litp_y, pointwise, positive, signed};
use super::code::{Op, Operand, Slot, components};
use crate::isa::{CmpOp, DotOp, PointwiseOp, ScalarOp, VectorOp};
use crate::state::Vec4;
use fearless_simd::Simd;
use fearless_simd::prelude::*;

/// Vertices in a group.
pub const LANES: usize = 64;

/// Runs of four lanes in a column.
pub const QUADS: usize = LANES / 4;

/// Lanes of a column that a uniform's columns have; those of the widest vector.
const UNIFORM_LANES: usize = 8;

/// A component of a register, for each vertex of the group.
pub type Column = [f32; LANES];

/// The lanes of a group for which an operation is executed.
#[derive(Clone, Copy)]
pub struct Active {
    /// A bit per lane; not zero.
    pub lanes: u64,
    /// Whether these are all vertices of the group.
    pub all: bool,
}

/// All columns of a group.
pub struct Columns {
    /// Column `4 * slot + component`.
    #[expect(clippy::vec_box, reason = "columns change places by their pointers")]
    columns: Vec<Box<Column>>,
    /// For each column the lanes that were written.
    written: Vec<u64>,
    /// The columns that the next operation writes.
    spare: [Box<Column>; 4],
    /// `cmp.x` and `cmp.y`, a bit per lane.
    pub flags: [u64; 2],
    /// The lanes in which the flags were written.
    pub flags_written: u64,
    /// Lanes that operations compute; a multiple of every vector's length.
    width: usize,
}

impl Columns {
    /// No columns.
    pub fn new() -> Columns {
        let spare = std::array::from_fn(|_| Box::new([0.0; LANES]));
        Columns { columns: Vec::new(), written: Vec::new(), spare, flags: [0; 2], flags_written: 0, width: LANES }
    }

    /// Makes room for `slots` slots.
    pub fn reserve(&mut self, slots: usize) {
        if self.columns.len() < 4 * slots {
            self.columns.resize_with(4 * slots, || Box::new([0.0; LANES]));
        }
        self.written.clear();
        self.written.resize(4 * slots, 0);
    }

    /// Begins a group of `count` vertices.
    pub fn begin(&mut self, count: usize) {
        self.width = count.next_multiple_of(8);
        self.written.fill(0);
        self.flags_written = 0;
    }

    /// A column.
    pub fn column(&self, slot: Slot, c: usize) -> &Column {
        &self.columns[4 * usize::from(slot) + c]
    }

    /// A column to fill.
    pub fn column_mut(&mut self, slot: Slot, c: usize) -> &mut Column {
        &mut self.columns[4 * usize::from(slot) + c]
    }

    /// Sets the columns of a uniform.
    pub fn set_uniform(&mut self, slot: Slot, value: Vec4) {
        let columns = self.register_mut(slot);
        columns.iter_mut().zip(value).for_each(|(column, x)| column[..UNIFORM_LANES].fill(x));
    }

    fn register_mut(&mut self, slot: Slot) -> &mut [Box<Column>; 4] {
        let at = 4 * usize::from(slot);
        self.columns[at..].first_chunk_mut().expect("a register has four columns")
    }

    /// The columns of a register, by four lanes.
    #[inline(always)]
    pub fn quads_mut(&mut self, slot: Slot) -> [&mut [[f32; 4]; QUADS]; 4] {
        let [x, y, z, w] = self.register_mut(slot);
        [quads(x), quads(y), quads(z), quads(w)]
    }

    /// The lanes of a column that were written in this group.
    pub fn written(&self, slot: Slot, c: usize) -> u64 {
        self.written[4 * usize::from(slot) + c]
    }

    /// Component `c` of an operand as integers, as `MOVA` converts it.
    #[inline(always)]
    pub fn to_address<S: Simd, V: Lanes<S>>(&self, simd: S, src: &Operand, c: usize, to: &mut [i32; LANES]) {
        let from = source(&self.columns, src, c);
        let mut at = 0;
        while at < self.width {
            from.at::<S, V>(simd, at).to_int_precise::<V::Int>().store_slice(&mut to[at..at + V::LEN]);
            at += V::LEN;
        }
    }

    /// Executes an operation that only concerns columns and flags.
    #[inline(always)]
    pub fn execute<S: Simd, V: Lanes<S>, F: Format>(&mut self, simd: S, format: F, op: &Op, active: Active) {
        match *op {
            Op::Vector { op, dst, mask, ref src } => {
                match op {
                    VectorOp::Pointwise(op) => self.pointwise::<S, V, F>(simd, format, op, mask, src),
                    VectorOp::Dot(op) => self.dot::<S, V, F>(simd, format, op, mask, src),
                    VectorOp::Dst => self.dst::<S, V, F>(simd, format, mask, src),
                    VectorOp::Litp => self.litp::<S, V>(simd, mask, &src[0], active.lanes),
                }
                self.commit::<S, V>(simd, dst, mask, active);
            }
            Op::Scalar { op, dst, mask, ref src } => {
                if mask != 0 {
                    let first = next(&mut { mask });
                    self.scalar::<S, V, F>(simd, format, op, first, src);
                    self.repeat(first, mask);
                    self.commit::<S, V>(simd, dst, mask, active);
                }
            }
            Op::Compare { ops, ref src } => {
                let flags = [self.compare::<S, V>(simd, ops[0], src, 0), self.compare::<S, V>(simd, ops[1], src, 1)];
                self.set_flags(flags, active.lanes);
            }
            Op::ToAddress { .. } | Op::Fetch { .. } | Op::LoopBegin { .. } | Op::Emit | Op::Setemit(_) => {
                unreachable!("the group executes what is not about columns")
            }
        }
    }

    #[inline(always)]
    fn pointwise<S: Simd, V: Lanes<S>, F: Format>(
        &mut self,
        simd: S,
        format: F,
        op: PointwiseOp,
        mask: u8,
        src: &[Operand; 3],
    ) {
        // Each operation has loops of its own, one for each number of sources.
        op.specialize(
            #[inline(always)]
            |op| match op.sources() {
                1 => self.map1::<S, V>(
                    simd,
                    mask,
                    &src[0],
                    #[inline(always)]
                    |a| pointwise(format, op, a, a, a),
                ),
                2 => self.map2::<S, V>(
                    simd,
                    mask,
                    &src[0],
                    &src[1],
                    #[inline(always)]
                    |a, b| pointwise(format, op, a, b, b),
                ),
                _ => self.map3::<S, V>(
                    simd,
                    mask,
                    src,
                    #[inline(always)]
                    |a, b, c| pointwise(format, op, a, b, c),
                ),
            },
        );
    }

    #[inline(always)]
    fn map1<S: Simd, V: Lanes<S>>(&mut self, simd: S, mask: u8, a: &Operand, f: impl Fn(V) -> V) {
        let mut left = mask;
        while left != 0 {
            let n = next(&mut left);
            let a = source(&self.columns, a, n);
            fill::<S, V>(
                &mut self.spare[n],
                self.width,
                #[inline(always)]
                |at| f(a.at(simd, at)),
            );
        }
    }

    #[inline(always)]
    fn map2<S: Simd, V: Lanes<S>>(&mut self, simd: S, mask: u8, a: &Operand, b: &Operand, f: impl Fn(V, V) -> V) {
        let mut left = mask;
        while left != 0 {
            let n = next(&mut left);
            let (a, b) = (source(&self.columns, a, n), source(&self.columns, b, n));
            fill::<S, V>(
                &mut self.spare[n],
                self.width,
                #[inline(always)]
                |at| f(a.at(simd, at), b.at(simd, at)),
            );
        }
    }

    #[inline(always)]
    fn map3<S: Simd, V: Lanes<S>>(&mut self, simd: S, mask: u8, src: &[Operand; 3], f: impl Fn(V, V, V) -> V) {
        let mut left = mask;
        while left != 0 {
            let n = next(&mut left);
            let [a, b, c] = src.each_ref().map(|src| source(&self.columns, src, n));
            fill::<S, V>(
                &mut self.spare[n],
                self.width,
                #[inline(always)]
                |at| f(a.at(simd, at), b.at(simd, at), c.at(simd, at)),
            );
        }
    }

    #[inline(always)]
    fn dot<S: Simd, V: Lanes<S>, F: Format>(&mut self, simd: S, format: F, op: DotOp, mask: u8, src: &[Operand; 3]) {
        if mask == 0 {
            return;
        }
        let first = next(&mut { mask });
        let [a, b, _] = src;
        let (ax, ay, az) = (source(&self.columns, a, 0), source(&self.columns, a, 1), source(&self.columns, a, 2));
        let (bx, by, bz) = (source(&self.columns, b, 0), source(&self.columns, b, 1), source(&self.columns, b, 2));
        let (aw, bw) = (source(&self.columns, a, 3), source(&self.columns, b, 3));
        let (out, width) = (&mut *self.spare[first], self.width);
        // Three arms, so that an unused w is not loaded.
        match op {
            DotOp::Dp3 => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| {
                    let [az, bz] = [az.at(simd, at), bz.at(simd, at)];
                    let (a, b) =
                        ([ax.at(simd, at), ay.at(simd, at), az, az], [bx.at(simd, at), by.at(simd, at), bz, bz]);
                    format.dot(DotOp::Dp3, a, b)
                },
            ),
            DotOp::Dph => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| {
                    let az = az.at(simd, at);
                    let b = [bx.at(simd, at), by.at(simd, at), bz.at(simd, at), bw.at(simd, at)];
                    format.dot(DotOp::Dph, [ax.at(simd, at), ay.at(simd, at), az, az], b)
                },
            ),
            DotOp::Dp4 => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| {
                    let a = [ax.at(simd, at), ay.at(simd, at), az.at(simd, at), aw.at(simd, at)];
                    let b = [bx.at(simd, at), by.at(simd, at), bz.at(simd, at), bw.at(simd, at)];
                    format.dot(DotOp::Dp4, a, b)
                },
            ),
        }
        self.repeat(first, mask);
    }

    #[inline(always)]
    fn dst<S: Simd, V: Lanes<S>, F: Format>(&mut self, simd: S, format: F, mask: u8, src: &[Operand; 3]) {
        let [a, b, _] = src;
        if mask & 1 != 0 {
            self.spare[0].fill(1.0);
        }
        self.map2::<S, V>(
            simd,
            mask & 2,
            a,
            b,
            #[inline(always)]
            |a, b| format.mul(a, b),
        );
        self.map1::<S, V>(
            simd,
            mask & 4,
            a,
            #[inline(always)]
            |a| a,
        );
        self.map1::<S, V>(
            simd,
            mask & 8,
            b,
            #[inline(always)]
            |b| b,
        );
    }

    #[inline(always)]
    fn litp<S: Simd, V: Lanes<S>>(&mut self, simd: S, mask: u8, a: &Operand, lanes: u64) {
        let zero = V::splat(simd, 0.0);
        let (x, w) = (source(&self.columns, a, 0), source(&self.columns, a, 3));
        let flags = [
            bitmask::<S, V>(
                self.width,
                #[inline(always)]
                |at| x.at::<S, V>(simd, at).simd_ge(zero),
            ),
            bitmask::<S, V>(
                self.width,
                #[inline(always)]
                |at| w.at::<S, V>(simd, at).simd_ge(zero),
            ),
        ];
        self.map1::<S, V>(
            simd,
            mask & 0b1001,
            a,
            #[inline(always)]
            |a| positive(a),
        );
        self.map1::<S, V>(
            simd,
            mask & 0b0010,
            a,
            #[inline(always)]
            |a| litp_y(a),
        );
        if mask & 0b0100 != 0 {
            self.spare[2].fill(0.0);
        }
        self.set_flags(flags, lanes);
    }

    #[inline(always)]
    fn scalar<S: Simd, V: Lanes<S>, F: Format>(
        &mut self,
        simd: S,
        format: F,
        op: ScalarOp,
        first: usize,
        src: &Operand,
    ) {
        let a = source(&self.columns, src, 0);
        let (out, width) = (&mut *self.spare[first], self.width);
        // Each arm is a loop of its own.
        match op {
            ScalarOp::Rcp => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| format.scalar(ScalarOp::Rcp, a.at(simd, at)),
            ),
            ScalarOp::Rsq => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| format.scalar(ScalarOp::Rsq, a.at(simd, at)),
            ),
            ScalarOp::Ex2 => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| format.scalar(ScalarOp::Ex2, a.at(simd, at)),
            ),
            ScalarOp::Lg2 => fill::<S, V>(
                out,
                width,
                #[inline(always)]
                |at| format.scalar(ScalarOp::Lg2, a.at(simd, at)),
            ),
        }
    }

    #[inline(always)]
    fn compare<S: Simd, V: Lanes<S>>(&self, simd: S, op: CmpOp, src: &[Operand; 2], c: usize) -> u64 {
        let Some(relation) = op.relation() else { return !0 };
        let (a, b) = (source(&self.columns, &src[0], c), source(&self.columns, &src[1], c));
        bitmask::<S, V>(
            self.width,
            #[inline(always)]
            |at| compare::<S, V>(relation, a.at(simd, at), b.at(simd, at)),
        )
    }

    fn set_flags(&mut self, flags: [u64; 2], lanes: u64) {
        for (old, new) in self.flags.iter_mut().zip(flags) {
            *old = *old & !lanes | new & lanes;
        }
        self.flags_written |= lanes;
    }

    /// Copies the spare column of component `first` to the others of the mask.
    fn repeat(&mut self, first: usize, mask: u8) {
        for c in components(mask).filter(|&c| c != first) {
            let [from, to] = self.spare.get_disjoint_mut([first, c]).expect("two components");
            to[..self.width].copy_from_slice(&from[..self.width]);
        }
    }

    /// The spare columns become those of `dst`, in the active lanes.
    #[inline(always)]
    fn commit<S: Simd, V: Lanes<S>>(&mut self, simd: S, dst: Slot, mask: u8, active: Active) {
        let mut left = mask;
        while left != 0 {
            let c = next(&mut left);
            let column = 4 * usize::from(dst) + c;
            self.written[column] |= active.lanes;
            if active.all {
                std::mem::swap(&mut self.columns[column], &mut self.spare[c]);
                continue;
            }
            let (old, new) = (&mut self.columns[column], &self.spare[c]);
            let mut at = 0;
            while at < self.width {
                let mask = V::Mask::from_bitmask(simd, active.lanes >> at & ((1 << V::LEN) - 1));
                let old = &mut old[at..at + V::LEN];
                mask.select(V::from_slice(simd, &new[at..at + V::LEN]), V::from_slice(simd, old)).store_slice(old);
                at += V::LEN;
            }
        }
    }
}

#[inline(always)]
fn quads(column: &mut Column) -> &mut [[f32; 4]; QUADS] {
    column.as_chunks_mut().0.first_chunk_mut().expect("lanes are a multiple of four")
}

/// Removes the lowest component from a mask that is not empty.
#[inline(always)]
fn next(mask: &mut u8) -> usize {
    let c = mask.trailing_zeros() as usize;
    *mask &= *mask - 1;
    c & 3
}

/// Component of an operand: a column, with all signs flipped or not.
#[derive(Clone, Copy)]
struct Source<'a> {
    column: &'a Column,
    /// The bits of a lane's number that count: none for a uniform.
    lanes: usize,
    negate: bool,
}

impl Source<'_> {
    /// The vector of the lanes from `at` on.
    #[inline(always)]
    fn at<S: Simd, V: Lanes<S>>(&self, simd: S, at: usize) -> V {
        let at = at & self.lanes & (LANES - V::LEN);
        signed(V::from_slice(simd, &self.column[at..at + V::LEN]), self.negate)
    }
}

/// Component `c` of an operand.
#[inline(always)]
fn source<'a>(columns: &'a [Box<Column>], src: &Operand, c: usize) -> Source<'a> {
    let lanes = if src.uniform { 0 } else { LANES - 1 };
    Source { column: &columns[4 * usize::from(src.slot) + src.component(c)], lanes, negate: src.negate }
}

/// `out[at..]` = `f(at)` for each vector of lanes below `width`.
// Loops, not iterators: the adapters of `core` are not inlined into code for a CPU level.
#[inline(always)]
fn fill<S: Simd, V: Lanes<S>>(out: &mut Column, width: usize, f: impl Fn(usize) -> V) {
    let mut at = 0;
    while at < width {
        f(at).store_slice(&mut out[at..at + V::LEN]);
        at += V::LEN;
    }
}

/// The masks of consecutive vectors as bits.
#[inline(always)]
fn bitmask<S: Simd, V: Lanes<S>>(width: usize, f: impl Fn(usize) -> V::Mask) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < width {
        bits |= f(at).to_bitmask() << at;
        at += V::LEN;
    }
    bits
}
