//! The subtle points of the interpreter: behaviour measured on consoles, and easy mistakes.

use super::*;
use crate::isa::Opcode;
use crate::isa::table::Row;
use crate::isa::{Cond, CondOp, DstReg, Setemit, SrcReg, Stage, Swizzle};
use crate::kernel::default_fuel;
use crate::state::Registers;
use crate::testing::miri_or;

const B0: Test = Test::Bool { id: 0, value: true };
const NOT_B0: Test = Test::Bool { id: 0, value: false };

fn v(n: u8) -> Src {
    Src::plain(SrcReg::input(n))
}
fn r(n: u8) -> Src {
    Src::plain(SrcReg::temp(n))
}
fn c(n: u8) -> Src {
    Src::plain(SrcReg::uniform(n))
}
fn alu(op: Opcode, dst: DstReg, sources: &[Src]) -> Inst {
    let mut src = [Alu::NO_SRC; 3];
    src[..sources.len()].copy_from_slice(sources);
    Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src })
}
fn temp(n: u8) -> DstReg {
    DstReg::temp(n)
}
/// `r0 += v0`, with `v0` all ones in these tests: counts its executions.
fn count() -> Inst {
    alu(Opcode::Add, temp(0), &[v(0), r(0)])
}
fn splat(x: f32) -> Vec4 {
    [x; 4]
}

fn program(insts: &[Inst]) -> Program {
    let mut opdescs: Vec<u32> = Vec::new();
    let code: Vec<u32> = insts
        .iter()
        .map(|inst| {
            let index = inst.opdesc().map_or(0, |d| {
                opdescs.iter().position(|&e| e == d).unwrap_or_else(|| {
                    opdescs.push(d);
                    opdescs.len() - 1
                })
            });
            inst.encode(index as u8).unwrap()
        })
        .collect();
    Program::from_words(&code, &opdescs).unwrap()
}

/// A program with its inputs and its resulting state.
struct Run {
    uniforms: Uniforms,
    unit: Unit,
    config: Config,
    stage: Stage,
    pcs: Vec<Pc>,
    triangles: Vec<(Vec<Registers>, bool)>,
}

impl Run {
    fn new() -> Run {
        let mut uniforms = Uniforms::new();
        uniforms.c = std::array::from_fn(|n| splat(n as f32));
        uniforms.b = 1;
        let mut unit = Unit::new();
        unit.v[0] = splat(1.0);
        let config = Config::default();
        Run { uniforms, unit, config, stage: Stage::Vertex, pcs: Vec::new(), triangles: Vec::new() }
    }

    fn run(&mut self, insts: &[Inst]) -> Exit {
        let entry = Entry { pc: 0, stage: self.stage };
        let kernel = Interp.kernel(&program(insts), entry, &self.config);
        let mut plain = self.unit.clone();
        let plain_exit = kernel.run(&self.uniforms, &mut plain, &mut Collect(&mut Vec::new()));
        let (pcs, mut nexts) = (&mut self.pcs, vec![Some(0)]);
        pcs.clear();
        let mut hook = |step: Step<'_>| {
            pcs.push(step.pc);
            assert_eq!(nexts.last(), Some(&Some(step.pc)), "every step is where the one before went");
            nexts.push(step.next);
        };
        let exit = kernel.run_traced(&self.uniforms, &mut self.unit, &mut Collect(&mut self.triangles), &mut hook);
        assert_eq!((plain_exit, format!("{plain:?}")), (exit, format!("{:?}", self.unit)), "traced is as plain");
        assert_eq!(nexts.last().unwrap().is_some(), exit == Exit::PastEnd);
        exit
    }
}

struct Collect<'a>(&'a mut Vec<(Vec<Registers>, bool)>);

impl Emitter for Collect<'_> {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        self.0.push((vertices.map(|v| *v).to_vec(), winding));
    }
}

#[test]
fn relative_addressing_matches_the_measurements() {
    let ones = 1.0;
    let points = [
        (0, 40.0),
        (13, 53.0),
        (50, 90.0),
        (60, ones),
        (74, ones),
        (87, ones),
        (88, 0.0),
        (127, 39.0),
        (128, 40.0),
        (-40, 0.0),
        (-42, ones),
        (-70, ones),
        (-73, 95.0),
        (-127, 41.0),
        (-128, 40.0),
        (-129, 40.0),
        (i32::MAX, 40.0),
        (i32::MIN, 40.0),
    ];
    let src = |index| Src { index, negate: true, ..c(40) };
    for (index, want) in points.into_iter().step_by(miri_or(4, 1)) {
        for (at, which) in [Index::A0x, Index::A0y, Index::AL].into_iter().enumerate() {
            let mut run = Run::new();
            let mut all = [7, 7, 7];
            all[at] = index;
            [run.unit.a0[0], run.unit.a0[1], run.unit.al] = all;
            assert_eq!(run.run(&[alu(Opcode::Mov, temp(1), &[src(which)]), Inst::End]), Exit::End);
            assert_eq!(run.unit.r[1], splat(-want), "index {index} in {which:?}");
        }
    }
}

#[test]
fn an_index_on_v_or_r_does_nothing() {
    let mut run = Run::new();
    run.unit.a0 = [3, 3];
    run.unit.r[2] = splat(5.0);
    let indexed = |src| Src { index: Index::A0x, ..src };
    run.run(&[alu(Opcode::Mov, temp(1), &[indexed(r(2))]), alu(Opcode::Mov, temp(3), &[indexed(v(0))]), Inst::End]);
    assert_eq!((run.unit.r[1], run.unit.r[3]), (splat(5.0), splat(1.0)));
}

#[test]
fn mova_respects_its_mask_and_cmp_does_not() {
    let mut run = Run::new();
    run.unit.a0 = [70, 80];
    run.unit.v[1] = [-1.9, 2.9, 0.0, 0.0];
    run.run(&[Inst::Mova { mask: WriteMask::new(0b0111), src: v(1) }, Inst::End]);
    assert_eq!(run.unit.a0, [70, 2]);
    run.run(&[Inst::Mova { mask: WriteMask::new(0b1000), src: v(1) }, Inst::End]);
    assert_eq!(run.unit.a0, [-1, 2]);
    let cmp = Inst::Cmp { ops: [CmpOp::Lt, CmpOp::True7], src: [v(1), v(0)] };
    assert_eq!(cmp.opdesc().unwrap() & 0xF, 0);
    run.run(&[cmp, Inst::End]);
    assert_eq!(run.unit.cmp, [true, true]);
}

#[test]
fn scalar_operations_use_the_swizzled_x_and_fill_the_mask() {
    let yzwx = Swizzle::from_components([1, 2, 3, 0]);
    for (op, want) in [(Opcode::Rcp, 0.25), (Opcode::Rsq, 0.5), (Opcode::Ex2, 16.0), (Opcode::Lg2, 2.0)] {
        let mut run = Run::new();
        run.unit.v[1] = [9.0, 4.0, 7.0, 8.0];
        let mut inst = alu(op, temp(1), &[Src { swizzle: yzwx, ..v(1) }]);
        if let Inst::Alu(alu) = &mut inst {
            alu.mask = WriteMask::new(0b1011);
        }
        run.run(&[inst, Inst::End]);
        assert_eq!(run.unit.r[1], [want, 0.0, want, want], "{op:?}");
    }
}

#[test]
fn dph_appends_one_after_swizzle_and_negation() {
    let mut run = Run::new();
    run.unit.v[1] = [1.0, 2.0, 3.0, 100.0];
    run.unit.v[2] = [1.0, 1.0, 1.0, 10.0];
    let negated = Src { negate: true, ..v(1) };
    run.run(&[
        alu(Opcode::Dph, temp(0), &[v(1), v(2)]),
        alu(Opcode::Dphi, temp(1), &[v(1), v(2)]),
        alu(Opcode::Dph, temp(2), &[negated, v(2)]),
        Inst::End,
    ]);
    assert_eq!(run.unit.r[..3], [splat(16.0), splat(16.0), splat(4.0)]);
}

#[test]
fn dst_and_litp_follow_their_formulas() {
    let mut run = Run::new();
    run.unit.v[1] = [2.0, 3.0, 5.0, 7.0];
    run.unit.v[2] = [11.0, 13.0, 17.0, 19.0];
    run.run(&[alu(Opcode::Dst, temp(0), &[v(1), v(2)]), alu(Opcode::Dsti, temp(1), &[v(1), v(2)]), Inst::End]);
    assert_eq!(run.unit.r[..2], [[1.0, 39.0, 5.0, 19.0]; 2]);

    run.unit.v[1] = [-2.0, 500.0, 5.0, 7.0];
    run.run(&[alu(Opcode::Litp, temp(2), &[v(1)]), Inst::End]);
    assert_eq!((run.unit.r[2], run.unit.cmp), ([0.0, 32767.0 / 256.0, 0.0, 7.0], [false, true]));
    let mut unmasked = alu(Opcode::Litp, temp(2), &[Src { negate: true, ..v(1) }]);
    if let Inst::Alu(alu) = &mut unmasked {
        alu.mask = WriteMask::NONE;
    }
    let before = run.unit.r[2];
    run.run(&[unmasked, Inst::End]);
    assert_eq!((run.unit.r[2], run.unit.cmp), (before, [true, false]));
}

#[test]
fn sources_are_read_before_the_destination_is_written() {
    let mut run = Run::new();
    run.unit.r[1] = [1.0, 2.0, 3.0, 4.0];
    run.run(&[
        alu(Opcode::Mov, temp(1), &[Src { swizzle: Swizzle::from_components([3, 2, 1, 0]), ..r(1) }]),
        Inst::End,
    ]);
    assert_eq!(run.unit.r[1], [4.0, 3.0, 2.0, 1.0]);
}

#[test]
fn undefined_words_do_nothing() {
    let undefined = (0..64u32).filter(|opcode| Row::of_word(opcode << 26).is_none());
    let mut insts: Vec<Inst> = undefined.map(|op| Inst::Undefined { word: op << 26 | 0x3FF_FFFF }).collect();
    insts.push(Inst::End);
    let mut run = Run::new();
    let before = format!("{:?}", run.unit);
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!(before, format!("{:?}", run.unit));
}

#[test]
fn outputs_alternate_between_the_banks() {
    let (a, b) = (splat(10.0), splat(20.0));
    let set = |vertex, primitive| Inst::Setemit(Setemit { vertex, primitive, winding: vertex == 2 });
    let mov = |n| alu(Opcode::Mov, DstReg::output(0), &[c(n)]);
    let insts = [
        mov(10),
        set(0, false),
        Inst::Emit,
        mov(20),
        set(1, false),
        Inst::Emit,
        set(2, true),
        Inst::Emit,
        set(3, true),
        Inst::Emit,
        Inst::End,
    ];
    let mut run = Run::new();
    run.stage = Stage::Geometry;
    assert_eq!(run.run(&insts), Exit::End);
    let slots: Vec<Vec4> = run.unit.slots.iter().map(|s| s[0]).collect();
    assert_eq!(slots, [a, b, a, b]);
    assert_eq!(run.triangles.iter().map(|t| t.1).collect::<Vec<_>>(), [true, false]);
    assert_eq!(run.triangles[0].0.iter().map(|s| s[0]).collect::<Vec<_>>(), [a, b, a]);
    assert_eq!(run.unit.bank, 0);

    let mut vertex = Run::new();
    vertex.run(&insts);
    assert!(vertex.triangles.is_empty());
    assert_eq!((vertex.unit.setemit, vertex.unit.bank), (EmitState::default(), 0));
    assert_eq!(vertex.unit.outputs()[0], b);
}

#[test]
fn a_loop_runs_x_plus_one_times_and_al_keeps_its_last_value() {
    let mut run = Run::new();
    run.uniforms.i[2] = [3, 5, 10, 77];
    let seen = alu(Opcode::Add, temp(1), &[Src { index: Index::AL, ..c(0) }, r(1)]);
    assert_eq!(run.run(&[Inst::Loop { int: 2, last: 2 }, count(), seen, Inst::End]), Exit::End);
    assert_eq!((run.unit.r[0], run.unit.al), (splat(4.0), 45));
    assert_eq!(run.unit.r[1], splat(5.0 + 15.0 + 25.0 + 35.0));
}

#[test]
fn an_inner_loop_restores_the_outer_ones_al() {
    let mut run = Run::new();
    run.uniforms.i[0] = [1, 50, 7, 0];
    run.uniforms.i[1] = [2, 3, 1, 0];
    let seen = alu(Opcode::Add, temp(1), &[Src { index: Index::AL, ..c(0) }, r(1)]);
    let insts = [Inst::Loop { int: 0, last: 3 }, Inst::Loop { int: 1, last: 2 }, count(), seen, Inst::End];
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!(run.unit.r[..2], [splat(6.0), splat(50.0 + 57.0)]);
    assert_eq!(run.unit.al, 64, "nothing is restored after the outermost loop");
}

#[test]
fn two_loops_on_one_end_leave_together() {
    let mut run = Run::new();
    run.uniforms.i[0] = [9, 0, 1, 0];
    run.uniforms.i[1] = [2, 3, 1, 0];
    let insts = [Inst::Loop { int: 0, last: 2 }, Inst::Loop { int: 1, last: 2 }, count(), Inst::End];
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!((run.unit.r[0], run.unit.al), (splat(3.0), 0), "one pass of the outer loop, whose aL is back");
}

#[test]
fn break_counts_al_and_restores_the_outer_one() {
    let mut run = Run::new();
    run.uniforms.i[0] = [5, 1, 2, 0];
    run.uniforms.i[1] = [5, 100, 20, 0];
    assert_eq!(run.run(&[Inst::Loop { int: 0, last: 2 }, Inst::Break, Inst::Nop, Inst::End]), Exit::End);
    assert_eq!((run.pcs.as_slice(), run.unit.al), ([0, 1, 3].as_slice(), 3));
    let cond = Cond { op: CondOp::And, ref_x: false, ref_y: false };
    let nested = [
        Inst::Loop { int: 0, last: 4 },
        Inst::Loop { int: 1, last: 3 },
        Inst::Breakc { cond },
        Inst::Nop,
        count(),
        Inst::End,
    ];
    assert_eq!(run.run(&nested), Exit::End);
    assert_eq!((run.unit.r[0], run.unit.al), (splat(6.0), 13));
}

#[test]
fn a_taken_break_outside_a_loop_ends_the_run() {
    let breakc = |ref_x| Inst::Breakc { cond: Cond { op: CondOp::X, ref_x, ref_y: false } };
    let mut run = Run::new();
    assert_eq!(run.run(&[breakc(true), count(), Inst::Break, count()]), Exit::BreakOutsideLoop);
    assert_eq!((run.pcs.as_slice(), run.unit.r[0]), ([0, 1, 2].as_slice(), splat(1.0)));
    assert_eq!(run.run(&[breakc(false), Inst::End]), Exit::BreakOutsideLoop);
}

#[test]
fn the_last_word_of_a_scope_loses_its_jump() {
    let mut run = Run::new();
    let insts =
        [Inst::If { test: B0, target: 2, len: 2 }, Inst::Jump { test: B0, target: 7 }, Inst::Nop, Inst::Nop, Inst::End];
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!(run.pcs, [0, 1, 4]);
    run.uniforms.b = 0;
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!(run.pcs, [0, 2, 3, 4]);
}

#[test]
fn the_fourth_return_in_one_step_is_lost() {
    let call = |target| Inst::Call { test: None, target, len: 1 };
    let mut insts = vec![Inst::Nop; 10];
    (insts[0], insts[5], insts[6], insts[7], insts[9]) = (call(5), call(6), call(7), call(8), Inst::End);
    let mut run = Run::new();
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!(run.pcs, [0, 5, 6, 7, 8, 6, 7, 8, 7, 8, 8, 9], "word 8 returns to 6, not to 1");
}

#[test]
fn the_fifth_loop_and_the_fifth_call_forget_the_first() {
    let mut run = Run::new();
    run.uniforms.i[0] = [1, 0, 1, 0];
    let mut insts: Vec<Inst> = (0..5).map(|n| Inst::Loop { int: 0, last: 9 - n }).collect();
    insts.extend([count(), Inst::Nop, Inst::Nop, Inst::Nop, Inst::Nop, Inst::End]);
    assert_eq!(run.run(&insts), Exit::End);
    assert_eq!((run.unit.r[0], run.unit.al), (splat(16.0), 2), "four loops of two");

    // Each procedure is a call and a word; the innermost is one word.
    let call = |target, len| Inst::Call { test: None, target, len };
    let mut insts = vec![call(2, 2), Inst::End];
    insts.extend((0..4).flat_map(|n| [call(4 + 2 * n, if n < 3 { 2 } else { 1 }), count()]));
    insts.push(Inst::Nop);
    run.unit.r[0] = splat(0.0);
    assert_eq!(run.run(&insts), Exit::PastEnd, "word 3 does not return to 1");
    assert_eq!(run.pcs[..11], [0, 2, 4, 6, 8, 10, 9, 7, 5, 3, 4]);
}

#[test]
fn fuel_pays_for_executed_words_at_backward_transfers() {
    let mut run = Run::new();
    run.uniforms.b = 0;
    let forever = [count(), Inst::Jump { test: NOT_B0, target: 0 }];
    for (fuel, runs) in [(0, 1.0), (1, 1.0), (2, 2.0), (5, 3.0), (6, 4.0)] {
        run.config.fuel = fuel;
        run.unit.r[0] = splat(0.0);
        assert_eq!(run.run(&forever), Exit::Fuel);
        assert_eq!(run.unit.r[0], splat(runs));
    }
    // One backward transfer, after the LOOP and a body of one word; leaving the loop is none.
    run.uniforms.i[0] = [1, 0, 1, 0];
    let looped = [Inst::Loop { int: 0, last: 1 }, count(), Inst::End];
    for (fuel, exit, runs, al) in [(0, Exit::Fuel, 1.0, 1), (1, Exit::Fuel, 1.0, 1), (2, Exit::End, 2.0, 2)] {
        run.config.fuel = fuel;
        run.unit.r[0] = splat(0.0);
        assert_eq!(run.run(&looped), exit);
        assert_eq!((run.unit.r[0], run.unit.al), (splat(runs), al));
    }
    run.config.fuel = 0;
    assert_eq!(run.run(&[Inst::Jump { test: NOT_B0, target: 0 }]), Exit::Fuel, "to itself is backward");
    assert_eq!(run.run(&[Inst::Jump { test: NOT_B0, target: 1 }, Inst::End]), Exit::End);
}

#[test]
fn a_run_past_the_last_word_has_its_own_exit() {
    let mut run = Run::new();
    assert_eq!(run.run(&[count()]), Exit::PastEnd);
    assert_eq!(run.run(&[Inst::Jump { test: B0, target: 0xFFF }, Inst::End]), Exit::PastEnd);
    let kernel = Interp.kernel(
        &program(&[Inst::End]),
        Entry::vertex(Pc::MAX),
        &Config { fuel: default_fuel(Stage::Vertex), ..run.config },
    );
    assert_eq!(kernel.run(&run.uniforms, &mut run.unit, &mut crate::state::NoEmitter), Exit::PastEnd);
}

#[test]
fn a_kernel_holds_its_instructions() {
    for n in [1, 2, 100] {
        let program = program(&vec![Inst::Nop; n]);
        let kernel = Interp.kernel(&program, Entry::vertex(0), &Config::default());
        assert_eq!(kernel.held_bytes(), size_of::<InterpKernel>() + n * size_of::<Inst>());
    }
}
