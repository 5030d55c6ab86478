//! Ranges of float24 numbers: which results need no flush, no limit and no canonical zero.
//!
//! A float24 result is rounded, then +0 below 2^-62 and infinite from 2^64 on. Rounding is cheap; the
//! other two steps cost three times as much, and for most results bounds show that they change
//! nothing. The bounds start from a [`BAND`](Range::BAND) in which code assumes inputs, uniforms and
//! registers in memory. Code tests the assumption and deoptimises if it fails.
//!
//! Three bounds describe a number: its greatest magnitude, its least one unless it is 0, and the power of
//! two of which it is a multiple. The last one is what bounds a sum: one of multiples of 2^q is 0 or at
//! least 2^q. Float24 has 17 significant bits, so each number from 2^l on is a multiple of 2^(l - 16).
//!
//! A product of two numbers in the band is at least 2^-62. A product's operand beyond the band is *checked*: code
//! tests that it is in the band as well, which costs less than a flush of each of its products. Where that
//! is not possible, the result is flushed and limited.
//!
//! **Sums of dot products.** The terms are at least 2^-62, so a partial sum below it is a sum that should be
//! flushed. If the whole sum is 0 or in the band, that changes nothing: the other part is so much larger that
//! the sum rounds to it. So one check of the whole sum replaces the flush of each part.
//!
//! Invariant: a bound holds in each run in which all checks hold. This file must not know how results are computed.

use super::{Components, XYZW, components, operand_components};
use crate::ir::{Func, Inst, Node, ScalarUse, Type, Use, Value};
use crate::isa::float24::{SMALLEST, TAIL};
use crate::isa::numeric::LITP_LIMIT;
use crate::isa::{DotOp, PointwiseResult, ScalarOp, VectorOp};
use std::fmt::{self, Display, Formatter};

/// Exponent of the least result: less is flushed.
const LEAST: i32 = -62;
/// From this exponent on a result is infinite.
const LIMIT: i32 = 64;
/// Bits of a float24 mantissa.
const MANTISSA: i32 = 16;
/// Passes after which a parameter that still changes gets the bounds of all results.
const PASSES: u32 = 4;
/// Passes after which the analysis fails. Real programs need few.
const MAX_PASSES: u32 = 64;

/// Bounds of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Its magnitude is less than 2^high.
    high: i32,
    /// Unless it is 0, its magnitude is at least 2^low.
    low: i32,
    /// It is a multiple of 2^grain.
    grain: i32,
    /// Whether it may be infinite or NaN instead.
    special: bool,
}

impl Range {
    /// What code assumes of inputs, uniforms and registers, and what a check shows: 0, or at least 2^-31 and
    /// less than 2^30. A product of two such numbers needs no flush, and a sum of four products no limit.
    pub(crate) const BAND: Range = Range { high: 30, low: -31, grain: -31 - MANTISSA, special: false };

    /// The bits of the band's least magnitude, and of the least magnitude above it.
    pub(crate) fn band_bits() -> (u32, u32) {
        let power = |exponent: i32| ((exponent + 127) as u32) << 23;
        (power(Range::BAND.low), power(Range::BAND.high))
    }

    /// All results that are no infinity and no NaN.
    const RESULT: Range = Range { high: LIMIT, low: LEAST, grain: LEAST - MANTISSA, special: false };
    /// 0. The bounds are beyond all others, and sums of a few of them fit.
    const ZERO: Range = Range { high: -1024, low: 1024, grain: 1024, special: false };
    /// 0 or 1.
    const TRUTH: Range = Range { high: 1, low: 0, grain: 0, special: false };

    fn new(high: i32, low: i32, grain: i32, special: bool) -> Range {
        let grain = grain.max(low - MANTISSA);
        Range { high, low: low.max(grain), grain, special }
    }

    /// The bounds of a constant.
    fn of(bits: u32) -> Range {
        let x = f32::from_bits(bits);
        if x == 0.0 {
            return Range::ZERO;
        }
        let exponent = (bits >> 23 & 0xFF) as i32 - 127;
        let mantissa = bits & 0x7F_FFFF | 0x80_0000;
        Range::new(exponent + 1, exponent, exponent - 23 + mantissa.trailing_zeros() as i32, !x.is_finite())
    }

    /// The union of two ranges.
    fn or(self, other: Range) -> Range {
        Range {
            high: self.high.max(other.high),
            low: self.low.min(other.low),
            grain: self.grain.min(other.grain),
            special: self.special || other.special,
        }
    }

    /// A rounded product.
    fn product(self, other: Range) -> Range {
        let special = self.special || other.special;
        Range::new(self.high + other.high, self.low + other.low, self.grain + other.grain, special)
    }

    /// A rounded sum.
    fn sum(self, other: Range) -> Range {
        let grain = self.grain.min(other.grain);
        Range::new(self.high.max(other.high) + 1, grain, grain, self.special || other.special)
    }

    fn floor(self) -> Range {
        Range::new(self.high.max(0) + 1, 0, 0, self.special)
    }

    /// A scalar operation, narrowed. Quotients and powers that are infinite are rare, so they are checked. A
    /// logarithm of 0 is usual: a highlight is a power of a cosine that is 0 on one side.
    fn scalar(self, op: ScalarOp) -> (Range, Check) {
        let (high, low, special, check) = match op {
            ScalarOp::Rcp => (1 - self.low, -self.high, true, Check { low: true, high: true }),
            ScalarOp::Rsq => {
                let (high, low) = (1 - self.low.div_euclid(2), -(self.high + 1).div_euclid(2));
                (high, low, true, Check { low: low < Range::BAND.low, high: true })
            }
            ScalarOp::Ex2 => (LIMIT, LEAST, true, Check { low: false, high: true }),
            // Next to 1 the logarithm is at least half the difference, which is at least 2^-17.
            ScalarOp::Lg2 => (7, -MANTISSA - 2, true, Check::default()),
        };
        let special = special && !check.high;
        (Range::new(high.min(LIMIT), low.max(LEAST), low.max(LEAST) - MANTISSA, special), check)
    }

    fn flushed(self) -> Range {
        Range::new(self.high, self.low.max(LEAST), self.grain, self.special)
    }

    fn limited(self) -> Range {
        Range { high: self.high.min(LIMIT), ..self }
    }

    fn checked(self, check: Check) -> Range {
        let low = if check.low { self.low.max(Range::BAND.low) } else { self.low };
        let high = if check.high { self.high.min(Range::BAND.high) } else { self.high };
        Range::new(high, low, self.grain, self.special)
    }
}

/// What code tests of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// That it is 0 or not below the band.
    pub(crate) low: bool,
    /// That it is not above the band, and no NaN.
    pub(crate) high: bool,
}

/// The steps after rounding that a result needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// +0 below 2^-62.
    pub(crate) flush: bool,
    /// Infinite from 2^64 on. Speculative code deoptimises instead.
    pub(crate) limit: bool,
}

impl Steps {
    /// The range of a result of this range, and the steps that it needs.
    fn narrow(&mut self, mut range: Range) -> Range {
        if range.low < LEAST {
            self.flush = true;
            range = range.flushed();
        }
        if range.high > LIMIT || range.special {
            self.limit = true;
            range = range.limited();
        }
        range
    }
}

/// How one component of an operation's result is narrowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Narrowing {
    /// Its products.
    pub(crate) products: Steps,
    /// Its sums, also those of parts of a dot product.
    pub(crate) sums: Steps,
    /// Whether an operand may be infinite or NaN.
    pub(crate) special: bool,
    /// The test of the result.
    pub(crate) check: Check,
    /// Whether a negative zero must become +0.
    pub(crate) positive_zero: bool,
}

impl Narrowing {
    /// The steps that either needs.
    pub(crate) fn or(self, other: Narrowing) -> Narrowing {
        let steps = |a: Steps, b: Steps| Steps { flush: a.flush || b.flush, limit: a.limit || b.limit };
        Narrowing {
            products: steps(self.products, other.products),
            sums: steps(self.sums, other.sums),
            special: self.special || other.special,
            check: Check { low: self.check.low || other.check.low, high: self.check.high || other.check.high },
            positive_zero: self.positive_zero || other.positive_zero,
        }
    }

    /// The range of a sum, and its steps.
    fn sum(&mut self, range: Range) -> Range {
        self.special |= range.special;
        self.sums.narrow(range)
    }
}

/// The narrowing of each component of each value; of parameters only the check.
pub(crate) struct Ranges(Vec<[Narrowing; 4]>);

/// A line for each value whose components need more than rounding.
impl Display for Ranges {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        type Needs = fn(&Narrowing) -> bool;
        let steps: [(&str, Needs); 8] = [
            ("flush products of", |n| n.products.flush),
            ("limit products of", |n| n.products.limit),
            ("flush sums of", |n| n.sums.flush),
            ("limit sums of", |n| n.sums.limit),
            ("may be infinite in", |n| n.special),
            ("at least 2^-31 or 0 in", |n| n.check.low),
            ("below 2^30 in", |n| n.check.high),
            ("+0 for -0 in", |n| n.positive_zero),
        ];
        for (value, narrowings) in self.0.iter().enumerate() {
            let mut separator = format!("  %{value}: ");
            for (name, needs) in steps {
                let set = (0..4).filter(|c| needs(&narrowings[*c])).map(|c| ['x', 'y', 'z', 'w'][c]);
                let set: String = set.collect();
                if !set.is_empty() {
                    write!(f, "{separator}{name} {set}")?;
                    separator = ", ".to_owned();
                }
            }
            if separator == ", " {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl Ranges {
    /// The narrowing of component `c` of a value.
    pub(crate) fn narrowing(&self, value: Value, c: u8) -> Narrowing {
        self.0[value.0 as usize][usize::from(c)]
    }

    /// Those of these components of a value that are checked for the lower bound, and for the upper one.
    pub(crate) fn checked(&self, value: Value, all: Components) -> [Components; 2] {
        let set = |test: fn(Check) -> bool| {
            components(all).filter(|c| test(self.narrowing(value, *c).check)).fold(0, |set, c| set | 1 << c)
        };
        [set(|check| check.low), set(|check| check.high)]
    }

    /// The narrowing that serves all of these components of a value.
    pub(crate) fn narrowing_of(&self, value: Value, all: Components) -> Narrowing {
        components(all).fold(Narrowing::default(), |narrowing, c| narrowing.or(self.narrowing(value, c)))
    }
}

impl Func {
    /// How float24 code narrows the results of a function in SSA form: code that computes components `live` and stores
    /// `stored`. `None` if a constant is no float24 number or the fixed point takes too many passes; no real program
    /// has either.
    pub(crate) fn ranges(&self, live: &[Components], stored: &[(Value, Components)]) -> Option<Ranges> {
        let is_foreign = |bits: &u32| {
            let (x, tail) = (f32::from_bits(*bits), bits & ((1 << TAIL) - 1));
            x.is_finite() && x != 0.0 && (x.abs() < SMALLEST || tail != 0)
        };
        let strange = |node: &Node| if let Node::Const(bits) = node { bits.iter().any(is_foreign) } else { false };
        if self.nodes.iter().any(strange) {
            return None;
        }
        let mut analysis = RangeAnalysis {
            func: self,
            live,
            ranges: vec![[None; 4]; self.nodes.len()],
            narrowings: vec![[Narrowing::default(); 4]; self.nodes.len()],
            changed: true,
        };
        let mut passes = 0;
        while std::mem::take(&mut analysis.changed) {
            passes += 1;
            if passes > MAX_PASSES {
                return None;
            }
            analysis.pass(passes > PASSES);
        }
        let mut narrowings = analysis.narrowings;
        for (id, observed) in self.signs_of_zero_observed(live, stored).into_iter().enumerate() {
            let Node::Alu { op, .. } = self.nodes[id] else { continue };
            for c in components(observed) {
                let narrowing = &mut narrowings[id][usize::from(c)];
                let flushed = match op {
                    VectorOp::Pointwise(op) => match op.result() {
                        PointwiseResult::Product => narrowing.products.flush,
                        PointwiseResult::Sum | PointwiseResult::ProductSum => narrowing.sums.flush,
                        PointwiseResult::Integer => false,
                        PointwiseResult::Source | PointwiseResult::Truth => true,
                    },
                    VectorOp::Dot(_) => narrowing.sums.flush,
                    VectorOp::Dst if c == 1 => narrowing.products.flush,
                    VectorOp::Dst | VectorOp::Litp => true,
                };
                narrowing.positive_zero = !flushed;
            }
        }
        Some(Ranges(narrowings))
    }

    /// All vectors that are stored.
    pub(crate) fn stored_vectors(&self) -> Vec<(Value, Components)> {
        let insts = self.blocks.iter().flat_map(|block| &block.insts);
        let stored = insts.filter_map(|(_, inst)| match *inst {
            Inst::Store(mem, value) if mem.ty() == Type::Vec4 => Some((value, XYZW)),
            _ => None,
        });
        stored.collect()
    }

    /// For each value the components whose sign is observable if they are 0: a store or a result has it.
    fn signs_of_zero_observed(&self, live: &[Components], stored: &[(Value, Components)]) -> Vec<Components> {
        let mut observed: Vec<Components> = vec![0; self.nodes.len()];
        let mut queue = stored.to_vec();
        let incoming = self.incoming();
        while let Some((value, set)) = queue.pop() {
            let slot = &mut observed[value.0 as usize];
            let set = set & live[value.0 as usize] & !*slot;
            if set == 0 {
                continue;
            }
            *slot |= set;
            match *self.node(value) {
                Node::Param(_) => queue.extend(incoming[value.0 as usize].iter().map(|&arg| (arg, set))),
                Node::Merge { mask, old, new } => {
                    queue.extend([(old, set & !mask.component_bits()), (new, set & mask.component_bits())]);
                }
                Node::Alu { op, src } => {
                    let copied = match op {
                        VectorOp::Pointwise(op) if op.result() == PointwiseResult::Source => set,
                        VectorOp::Litp => set & 0b0010,
                        VectorOp::Dst => set & 0b1100,
                        _ => 0,
                    };
                    for (n, u) in src[..op.sources()].iter().enumerate() {
                        let read = operand_components(op, n, copied);
                        queue.push((u.value, super::source_components(u, read)));
                    }
                }
                _ => {}
            }
        }
        observed
    }
}

/// The state of the fixed point.
struct RangeAnalysis<'a> {
    func: &'a Func,
    live: &'a [Components],
    /// `None` before the first pass that reaches a definition.
    ranges: Vec<[Option<Range>; 4]>,
    narrowings: Vec<[Narrowing; 4]>,
    changed: bool,
}

impl RangeAnalysis<'_> {
    fn pass(&mut self, widens: bool) {
        let func = self.func;
        for block in &func.blocks {
            for &(_, inst) in &block.insts {
                if let Inst::Def(value) = inst {
                    for c in components(self.live[value.0 as usize] & XYZW) {
                        if let Some(range) = self.define(value, c) {
                            self.set(value, c, range);
                        }
                    }
                }
            }
            for edge in block.term.edges() {
                for (&param, &arg) in func.blocks[edge.to].params.iter().zip(&edge.args) {
                    for c in components(self.live[param.0 as usize] & XYZW) {
                        self.join(param, c, arg, widens);
                    }
                }
            }
        }
    }

    fn set(&mut self, value: Value, c: u8, range: Range) {
        let range = range.checked(self.narrowings[value.0 as usize][usize::from(c)].check);
        let slot = &mut self.ranges[value.0 as usize][usize::from(c)];
        self.changed |= *slot != Some(range);
        *slot = Some(range);
    }

    /// Joins an argument with a parameter's range.
    fn join(&mut self, param: Value, c: u8, arg: Value, widens: bool) {
        let Some(arg) = self.range(arg, c) else { return };
        let before = self.ranges[param.0 as usize][usize::from(c)];
        let mut range = before.map_or(arg, |before| before.or(arg));
        if before != Some(range) && widens {
            range = range.or(Range::RESULT);
        }
        self.set(param, c, range);
    }

    /// The range of component `c` of a value, if it is defined yet.
    fn range(&self, value: Value, c: u8) -> Option<Range> {
        match self.func.node(value) {
            Node::Const(bits) => Some(Range::of(bits[usize::from(c)])),
            Node::Input(_) | Node::Uniform(_) | Node::Relative { .. } | Node::Load(_) => Some(Range::BAND),
            _ => self.ranges[value.0 as usize][usize::from(c)],
        }
    }

    /// The range of component `c` of a source after its swizzle.
    fn source(&self, u: &Use, c: usize) -> Option<Range> {
        self.range(u.value, u.swizzle.component(c) as u8)
    }

    /// The range of component `c` of a definition; sets its narrowing.
    fn define(&mut self, value: Value, c: u8) -> Option<Range> {
        let func = self.func;
        match func.node(value) {
            Node::Alu { op, src } => {
                let check = self.narrowings[value.0 as usize][usize::from(c)].check;
                let mut narrowing = Narrowing { check, ..Narrowing::default() };
                let range = self.alu(*op, src, usize::from(c), &mut narrowing)?;
                self.changed |= self.narrowings[value.0 as usize][usize::from(c)] != narrowing;
                self.narrowings[value.0 as usize][usize::from(c)] = narrowing;
                Some(range)
            }
            Node::Scalar { op, src } => {
                let (range, check) = self.range(src.value, src.component)?.scalar(*op);
                self.narrowings[value.0 as usize][usize::from(c)].check = check;
                Some(range)
            }
            Node::Merge { mask, old, new } => self.range(if mask.has(usize::from(c)) { *new } else { *old }, c),
            _ => None,
        }
    }

    fn alu(&mut self, op: VectorOp, src: &[Use; 3], c: usize, narrowing: &mut Narrowing) -> Option<Range> {
        match op {
            VectorOp::Pointwise(op) => match op.result() {
                PointwiseResult::Source => {
                    let mut sources = src[..VectorOp::from(op).sources()].iter().map(|u| self.source(u, c));
                    let first = sources.next()??;
                    sources.try_fold(first, |range, other| Some(range.or(other?)))
                }
                PointwiseResult::Truth => Some(Range::TRUTH),
                PointwiseResult::Integer => Some(self.source(&src[0], c)?.floor()),
                PointwiseResult::Product => self.product(&src[0].component(c), &src[1].component(c), narrowing),
                PointwiseResult::Sum => {
                    let sum = self.source(&src[0], c)?.sum(self.source(&src[1], c)?);
                    Some(narrowing.sum(sum.checked(narrowing.check)))
                }
                PointwiseResult::ProductSum => {
                    let product = self.product(&src[0].component(c), &src[1].component(c), narrowing)?;
                    let sum = product.sum(self.source(&src[2], c)?);
                    Some(narrowing.sum(sum.checked(narrowing.check)))
                }
            },
            VectorOp::Dot(op) => self.dot(op, src, narrowing),
            VectorOp::Dst => match c {
                0 => Some(Range::of(1.0f32.to_bits())),
                1 => self.product(&src[0].component(1), &src[1].component(1), narrowing),
                2 => self.source(&src[0], 2),
                _ => self.source(&src[1], 3),
            },
            VectorOp::Litp => match c {
                1 => Some(self.source(&src[0], 1)?.or(Range::of(LITP_LIMIT.to_bits()))),
                2 => Some(Range::ZERO),
                c => Some(self.source(&src[0], c)?.or(Range::ZERO)),
            },
        }
    }

    fn dot(&mut self, op: DotOp, src: &[Use; 3], narrowing: &mut Narrowing) -> Option<Range> {
        let mut terms = Vec::with_capacity(4);
        for n in 0..if op == DotOp::Dp3 { 3 } else { 4 } {
            terms.push(match (op, n) {
                (DotOp::Dph, 3) => self.source(&src[1], 3)?,
                _ => self.product(&src[0].component(n), &src[1].component(n), narrowing)?,
            });
        }
        let first = terms[0].sum(terms[1]);
        let second = if let [_, _, z, w] = *terms { z.sum(w) } else { terms[2] };
        let all = first.sum(second);
        if all.low < LEAST && !all.special && !narrowing.products.flush {
            narrowing.check.low = true;
            narrowing.sums.limit |= all.high > LIMIT;
            return Some(all.limited().checked(narrowing.check));
        }
        let (first, second) = (narrowing.sum(first), if op == DotOp::Dp3 { second } else { narrowing.sum(second) });
        Some(narrowing.sum(first.sum(second)))
    }

    /// The range of a product, after checks of its operands.
    fn product(&mut self, a: &ScalarUse, b: &ScalarUse, narrowing: &mut Narrowing) -> Option<Range> {
        let [a, b] = [a, b].map(|u| self.origin(u.value, u.component));
        let product = |s: &Self| Some(s.range(a.0, a.1)?.product(s.range(b.0, b.1)?));
        let needs_check = |p: Range| !p.special && (p.low < LEAST || p.high > LIMIT);
        for (value, c) in [a, b] {
            if needs_check(product(self)?) {
                self.check(value, c);
            }
        }
        let range = product(self)?;
        narrowing.special |= range.special;
        Some(narrowing.products.narrow(range))
    }

    /// Checks a number where it is defined, if it is beyond the band.
    fn check(&mut self, value: Value, c: u8) {
        let checkable = matches!(self.func.node(value), Node::Param(_) | Node::Alu { .. });
        let Some(range) = self.range(value, c).filter(|range| checkable && !range.special) else { return };
        let check = &mut self.narrowings[value.0 as usize][usize::from(c)].check;
        let needed = Check { low: range.low < Range::BAND.low, high: range.high > Range::BAND.high };
        *check = Check { low: check.low || needed.low, high: check.high || needed.high };
        self.set(value, c, range);
    }

    /// The definition that a component copies.
    fn origin(&self, mut value: Value, mut c: u8) -> (Value, u8) {
        loop {
            match *self.func.node(value) {
                Node::Merge { mask, old, new } => value = if mask.has(usize::from(c)) { new } else { old },
                Node::Alu { op: VectorOp::MOV, src: [u, ..] } => {
                    (value, c) = (u.value, u.swizzle.component(usize::from(c)) as u8);
                }
                _ => return (value, c),
            }
        }
    }
}

#[cfg(test)]
mod tests;
