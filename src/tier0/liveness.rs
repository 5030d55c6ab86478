//! Decoded blocks -> what an entry reads and writes, by component: textbook liveness on bit sets.
//!
//! A component is *read first* if some run reads its value from before the run, and *kept* if some
//! run writes it and another leaves it. A batch's vertices are independent if no component that is
//! written is read first; kept components only need the last vertex that wrote them.

use super::code::{Block, Code, Edge, Op, Operand, Terminator, Usage};
use super::registers::{A_L, A0_X, A0_Y, CMP_X, CMP_Y, Components, Register, components};
use crate::isa::flow::Exit;
use crate::isa::{Cond, CondOp, DotOp, Index, Test, VectorOp};
use std::ops::Range;

/// The components of its sources that `op` reads to compute those of `mask`: a mask for each
/// source.
pub fn source_components(op: VectorOp, mask: u8, src: &[Operand; 3]) -> [u8; 3] {
    let through = |s: &Operand, mask: u8| components(mask).fold(0, |read, c| read | 1 << s.component(c));
    let [a, b, c] = src;
    match op {
        _ if mask == 0 && op != VectorOp::Litp => [0; 3],
        VectorOp::Pointwise(_) => {
            let sources = op.sources();
            [
                through(a, mask),
                through(b, if sources > 1 { mask } else { 0 }),
                through(c, if sources > 2 { mask } else { 0 }),
            ]
        }
        VectorOp::Dot(DotOp::Dp3) => [through(a, 7), through(b, 7), 0],
        VectorOp::Dot(DotOp::Dp4) => [through(a, 15), through(b, 15), 0],
        VectorOp::Dot(DotOp::Dph) => [through(a, 7), through(b, 15), 0],
        VectorOp::Dst => [through(a, mask & 0b0110), through(b, mask & 0b1010), 0],
        // The flags need x and w.
        VectorOp::Litp => [through(a, mask & 0b0010 | 0b1001), 0, 0],
    }
}

/// The components that an operation reads, and those that it writes.
fn effects(op: &Op, registers: &[Register]) -> (Components, Components) {
    let of = |slot: u8, mask| Components::of(registers[usize::from(slot)], mask);
    let through = |s: &Operand, mask| of(s.slot, components(mask).fold(0, |read, c| read | 1 << s.component(c)));
    match *op {
        Op::Vector { op, dst, mask, ref src } => {
            let read = source_components(op, mask, src);
            let reads = src.iter().zip(read).fold(Components::NONE, |all, (s, mask)| all | of(s.slot, mask));
            let flags = if op == VectorOp::Litp { CMP_X | CMP_Y } else { 0 };
            (reads, of(dst, mask) | Components::state(flags))
        }
        Op::Scalar { dst, mask, ref src, .. } => (through(src, u8::from(mask != 0)), of(dst, mask)),
        // a0.x and a0.y are the lowest bits.
        Op::ToAddress { mask, ref src } => (through(src, mask), Components::state(mask)),
        Op::Compare { ref src, .. } => (through(&src[0], 3) | through(&src[1], 3), Components::state(CMP_X | CMP_Y)),
        Op::Fetch { index, .. } => (Components::state(index_component(index)), Components::NONE),
        // The outermost loop never restores aL.
        Op::LoopBegin { slot, .. } => (Components::state(if slot > 0 { A_L } else { 0 }), Components::state(A_L)),
        Op::Emit => (Components { outputs: !0, ..Components::NONE }, Components { outputs: !0, ..Components::NONE }),
        Op::Setemit(_) => (Components::NONE, Components::NONE),
    }
}

fn index_component(index: Index) -> u8 {
    match index {
        Index::None => 0,
        Index::A0x => A0_X,
        Index::A0y => A0_Y,
        Index::AL => A_L,
    }
}

fn tested(test: Test) -> u8 {
    match test {
        Test::Flags(Cond { op: CondOp::X, .. }) => CMP_X,
        Test::Flags(Cond { op: CondOp::Y, .. }) => CMP_Y,
        Test::Flags(_) => CMP_X | CMP_Y,
        Test::Bool { .. } => 0,
    }
}

/// What a program whose control flow is not a graph reads and writes: all that its words may.
pub fn of_words(ops: &[Op], registers: &[Register], tests: impl Iterator<Item = Test>) -> Usage {
    let (reads, written) = ops.iter().fold((Components::NONE, Components::NONE), |(reads, writes), op| {
        let (r, w) = effects(op, registers);
        (reads | r, writes | w)
    });
    let tested = tests.fold(0, |state, test| state | tested(test));
    let state = Components::state(A_L | tested);
    Usage {
        written: written | Components::state(A_L),
        kept: written | state,
        read_first: reads | state,
        fetches: fetches(ops),
    }
}

fn fetches(ops: &[Op]) -> bool {
    ops.iter().any(|op| matches!(op, Op::Fetch { .. }))
}

/// What the blocks of an entry read and write.
pub fn of_blocks(blocks: &[Block], pieces: &[Range<u32>], ops: &[Op], registers: &[Register]) -> Usage {
    let summaries = summaries(blocks, pieces, ops, registers);
    let written = summaries.iter().fold(Components::NONE, |all, (_, written)| all | *written);
    let read_first = live_at_entry(blocks, &summaries, Components::NONE, false);
    let kept = live_at_entry(blocks, &summaries, written, true) & written;
    Usage { written, kept, read_first, fetches: fetches(ops) }
}

/// Whether all runs that end on the same uniforms are known to write the same components. Either no
/// branch tests a flag, so runs take the same path, or each path to an exit writes all of them.
/// Programs whose flags depend on uniforms alone, or that write some components where a flag
/// decides and others where a uniform decides, may do so without being known to.
pub fn runs_write_alike(code: &Code) -> bool {
    let Some((blocks, pieces)) = code.blocks() else { return false };
    let tests_flags = |block: &Block| matches!(block.end, Terminator::Branch { test: Test::Flags(_), .. });
    if !blocks.iter().any(|block| matches!(block.end, Terminator::Exit(Exit::End))) {
        return false;
    }
    if !blocks.iter().any(tests_flags) {
        return true;
    }
    let summaries = summaries(blocks, pieces, &code.ops, &code.registers);
    let written = code.usage.written;
    (live_at_entry(blocks, &summaries, written, false) & written).is_empty()
}

/// For each block what it reads before it writes, and what it writes.
fn summaries(
    blocks: &[Block],
    pieces: &[Range<u32>],
    ops: &[Op],
    registers: &[Register],
) -> Vec<(Components, Components)> {
    let mut summaries = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (mut first, mut written) = (Components::NONE, Components::NONE);
        for piece in &pieces[block.pieces.start as usize..block.pieces.end as usize] {
            for op in &ops[piece.start as usize..piece.end as usize] {
                let (reads, writes) = effects(op, registers);
                first = first | reads & !written;
                written = written | writes;
            }
        }
        let (reads, writes) = match block.end {
            Terminator::Exit(_) | Terminator::Goto(_) => (0, 0),
            Terminator::Branch { test, .. } => (tested(test), 0),
            Terminator::LoopEnd { .. } | Terminator::LoopBreak { .. } => (A_L, A_L),
        };
        first = first | Components::state(reads) & !written;
        summaries.push((first, written | Components::state(writes)));
    }
    summaries
}

/// The components live at the entry if `at_exit` is live where runs end: at exits and, if `fuel`
/// may end them, on backward edges.
fn live_at_entry(
    blocks: &[Block],
    summaries: &[(Components, Components)],
    at_exit: Components,
    fuel: bool,
) -> Components {
    let mut live = vec![Components::NONE; blocks.len()];
    loop {
        let mut changed = false;
        for (n, block) in blocks.iter().enumerate().rev() {
            let at_edge = |edge: &Edge| if edge.backward && fuel { at_exit } else { Components::NONE };
            let to = |edge: &Edge| live[usize::from(edge.to)] | at_edge(edge);
            let after = match &block.end {
                Terminator::Exit(_) => at_exit,
                Terminator::Goto(edge) => to(edge),
                Terminator::Branch { yes, no, .. } => to(yes) | to(no),
                Terminator::LoopEnd { again, exit, .. } => to(again) | to(exit),
                Terminator::LoopBreak { exit, .. } => to(exit),
            };
            let (first, written) = summaries[n];
            let before = first | after & !written;
            changed |= before != live[n];
            live[n] = before;
        }
        if !changed {
            return live[0];
        }
    }
}
