//! Program + unit -> unit, one instruction at a time: the oracle that other engines are compared
//! with.
//!
//! Invariant: an instruction reads all its operands before it writes, and only the unit changes.
//! Clarity wins over speed: one match over [`Inst`], arithmetic from [`Precision`], transfers from
//! [`Scopes::step`]. The interpreter must stay independent of the recompiler: they share only
//! `isa`, `program` and `state`, or their agreement would prove nothing.

use crate::fp_mode::DefaultMode;
use crate::isa::flow::{Action, Next, Ring, Scopes, is_backward};
use crate::isa::numeric::Precision;
use crate::isa::{
    Alu, AluOp, CmpOp, DstFile, FLOAT_UNIFORMS, Index, Inst, Opcode, Pc, Relation, Src, SrcFile, Stage, Test, VectorOp,
    WriteMask,
};
use crate::kernel::cancel::CancelFlag;
use crate::kernel::{Backend, Config, Kernel, NextKernel, Unsupported, run_in_order};
use crate::layout::{HostEmitter, HostMemory, Layout, SetFlags};
use crate::program::{Entry, Program};
use crate::state::{Batch, BatchExit, EmitState, Emitter, Exit, Uniforms, Unit, Vec4};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The interpreter as a [`Backend`]: it takes every program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interp;

impl Interp {
    /// The kernel of [`Backend::compile`] with its concrete type, for traces.
    pub fn kernel(&self, program: &Program, entry: Entry, config: &Config) -> InterpKernel {
        let (code, cancel) = (program.insts().map(|(_, inst)| inst).collect(), CancelFlag::default());
        InterpKernel { code, entry, config: *config, cancel }
    }
}

impl Backend for Interp {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn compile(&self, program: &Arc<Program>, entry: Entry, config: &Config) -> Result<Arc<dyn Kernel>, Unsupported> {
        Ok(Arc::new(self.kernel(program, entry, config)))
    }
}

/// A decoded program, an entry and a configuration.
#[derive(Clone, Debug)]
pub struct InterpKernel {
    code: Box<[Inst]>,
    entry: Entry,
    config: Config,
    cancel: CancelFlag,
}

/// An executed instruction in [`InterpKernel::run_traced`].
#[derive(Debug)]
pub struct Step<'a> {
    /// Its address.
    pub pc: Pc,
    /// The instruction.
    pub inst: &'a Inst,
    /// The registers after it.
    pub unit: &'a Unit,
    /// The scopes open after it.
    pub scopes: &'a Scopes,
    /// The address that follows, which may lie past the last word; `None` if the run ends with this
    /// instruction.
    pub next: Option<Pc>,
    /// Iterations that the innermost open loop has left after the present one.
    pub iterations_left: Option<u8>,
}

impl Step<'_> {
    /// The output or temporary register that the instruction wrote, the components written, and the
    /// register's value. Outputs are those of the current bank, which no instruction that writes
    /// them toggles.
    pub fn written(&self) -> Option<(DstFile, WriteMask, Vec4)> {
        let Inst::Alu(alu) = self.inst else { return None };
        let file = alu.dst.file();
        let value = match file {
            DstFile::Output(n) => self.unit.outputs()[usize::from(n)],
            DstFile::Temp(n) => self.unit.r[usize::from(n)],
        };
        (alu.mask.bits() != 0).then_some((file, alu.mask, value))
    }
}

/// The counters of an open loop. Its addresses are the [`LoopScope`](crate::isa::flow::LoopScope)
/// at the same depth.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Iterations after this one.
    left: u8,
    /// Increment of aL per iteration.
    inc: u8,
    /// aL before the loop, for the outer loop.
    saved: i32,
}

// A run on other memory works on copies: the oracle's own memory is a unit.
impl Kernel for InterpKernel {
    fn run_on(&self, memory: &HostMemory<'_>, emitter: &mut dyn HostEmitter) -> Option<Exit> {
        self.run_traced_on(memory, emitter, &mut |_| ControlFlow::Continue(()))
    }

    fn run_batch_on(
        &self,
        memory: &HostMemory<'_>,
        batch: &mut Batch<'_>,
        emitter: &mut dyn HostEmitter,
        _: &dyn NextKernel,
    ) -> BatchExit {
        self.keeping_flags(memory, |set| {
            memory.with_copies(emitter, batch.preserve_unit, |uniforms, unit, emitter| {
                let mut note = |step: Step<'_>| {
                    self.note_flags(step.inst, set);
                    ControlFlow::Continue(())
                };
                let run = |unit: &mut Unit| self.run_hooked(uniforms, unit, emitter, &mut note).expect(UNSTOPPED);
                run_in_order(unit, batch, || self.cancel.is_set(), run)
            })
        })
    }

    fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
        self.run_hooked(uniforms, unit, emitter, |_| ControlFlow::Continue(())).expect(UNSTOPPED)
    }

    fn run_batch(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        batch: &mut Batch<'_>,
        emitter: &mut dyn Emitter,
    ) -> BatchExit {
        run_in_order(unit, batch, || self.cancel.is_set(), |unit| self.run(uniforms, unit, emitter))
    }

    fn layout(&self) -> Option<&Layout> {
        self.config.layout.as_ref()
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.code)
    }
}

/// A run without a breaking hook has an exit.
const UNSTOPPED: &str = "no hook breaks";

impl InterpKernel {
    /// The same kernel, whose runs end when `cancel` is set.
    pub(crate) fn cancelled_by(self, cancel: &CancelFlag) -> InterpKernel {
        InterpKernel { cancel: cancel.clone(), ..self }
    }

    /// [`Kernel::run`], calling `hook` once for every executed instruction, also for the one that
    /// ends the run.
    pub fn run_traced(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        hook: &mut dyn FnMut(Step<'_>),
    ) -> Exit {
        let hook = |step: Step<'_>| {
            hook(step);
            ControlFlow::Continue(())
        };
        self.run_hooked(uniforms, unit, emitter, hook).expect(UNSTOPPED)
    }

    /// [`Kernel::run_on`], calling `hook` as [`InterpKernel::run_traced`] does, until the hook
    /// breaks. Then the run stops without an exit, and the executed instructions keep their effect.
    /// The host's registers are written at the end of the run.
    pub fn run_traced_on(
        &self,
        memory: &HostMemory<'_>,
        emitter: &mut dyn HostEmitter,
        hook: &mut dyn FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Option<Exit> {
        self.keeping_flags(memory, |set| {
            memory.with_copies(emitter, false, |uniforms, unit, emitter| {
                self.run_hooked(uniforms, unit, emitter, |step| {
                    self.note_flags(step.inst, set);
                    hook(step)
                })
            })
        })
    }

    /// Runs `work`, which works on copies, and then restores the bytes of all flags but those that it
    /// notes as set.
    fn keeping_flags<T>(&self, memory: &HostMemory<'_>, work: impl FnOnce(&mut SetFlags) -> T) -> T {
        let (before, mut set) = (memory.flag_bytes(), SetFlags::default());
        let result = work(&mut set);
        if self.entry.stage == Stage::Vertex || memory.layout().offsets().geometry.is_some() {
            memory.set_flag_bytes(before, set);
        }
        result
    }

    fn note_flags(&self, inst: &Inst, set: &mut SetFlags) {
        match inst {
            Inst::Cmp { .. } => set.by_cmp = true,
            Inst::Alu(alu) if alu.op == Opcode::Litp => set.by_cmp = true,
            Inst::Setemit(_) if self.entry.stage == Stage::Geometry => set.by_setemit = true,
            _ => {}
        }
    }

    /// [`Kernel::run`], calling `hook` as [`InterpKernel::run_traced`] does, until the hook breaks.
    #[doc(hidden)]
    pub fn run_hooked(
        &self,
        uniforms: &Uniforms,
        unit: &mut Unit,
        emitter: &mut dyn Emitter,
        mut hook: impl FnMut(Step<'_>) -> ControlFlow<()>,
    ) -> Option<Exit> {
        let _mode = DefaultMode::enter();
        let mut scopes = Scopes::default();
        let mut counters: Ring<Counter, 4> = Ring::default();
        let fuel = self.config.fuel();
        let mut executed = 0;
        let mut pc = self.entry.pc;
        loop {
            let Some(inst) = self.code.get(usize::from(pc)) else { return Some(Exit::PastEnd) };
            executed += 1;
            let transfer = match self.execute(inst, uniforms, unit, emitter) {
                Action::Break if !scopes.can_break() => Err(Exit::BreakOutsideLoop),
                _ if *inst == Inst::End => Err(Exit::End),
                action => {
                    if let (Action::Loop { .. }, Inst::Loop { int, .. }) = (action, inst) {
                        let [x, y, z, _] = uniforms.i[usize::from(*int)];
                        counters.push(Counter { left: x, inc: z, saved: unit.al });
                        unit.al = i32::from(y);
                    }
                    let next = transfer(scopes.step(pc, action), &mut scopes, &mut counters, &mut unit.al);
                    match is_backward(pc, next) {
                        true if executed > fuel => Err(Exit::Fuel),
                        true if self.cancel.is_set() => Err(Exit::Cancelled),
                        _ => Ok(next),
                    }
                }
            };
            let iterations_left = counters.top().map(|counter| counter.left);
            let hooked = hook(Step { pc, inst, unit, scopes: &scopes, next: transfer.ok(), iterations_left });
            match transfer {
                _ if hooked.is_break() => return None,
                Ok(next) => pc = next,
                Err(exit) => return Some(exit),
            }
        }
    }

    /// Executes `inst` except for loop counters, and decides its condition.
    fn execute(&self, inst: &Inst, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Action {
        let p = self.config.precision;
        let geometry = self.entry.stage == Stage::Geometry;
        match *inst {
            Inst::Alu(alu) => execute_alu(p, &alu, uniforms, unit),
            Inst::Mova { mask, src } => {
                let s = fetch(p, &src, uniforms, unit);
                for (c, a) in unit.a0.iter_mut().enumerate() {
                    if mask.has(c) {
                        *a = p.to_address(s[c]);
                    }
                }
            }
            Inst::Cmp { ops, src } => {
                let [a, b] = src.map(|s| fetch(p, &s, uniforms, unit));
                unit.cmp = [compare(p, ops[0], a[0], b[0]), compare(p, ops[1], a[1], b[1])];
            }
            Inst::Emit if geometry => unit.emit(emitter),
            Inst::Setemit(parameters) if geometry => unit.setemit = EmitState::from(parameters),
            Inst::Emit | Inst::Setemit(_) | Inst::Nop | Inst::End | Inst::Undefined { .. } => {}

            Inst::Break => return Action::Break,
            Inst::Breakc { cond } if cond.eval(unit.cmp) => return Action::Break,
            Inst::Breakc { .. } => {}
            Inst::Call { test, target, len } => {
                if test.is_none_or(|test| holds(test, uniforms, unit)) {
                    return Action::Call { target, len };
                }
            }
            Inst::If { test, target, len } => {
                return if holds(test, uniforms, unit) {
                    Action::Then { end: target, cont: target + Pc::from(len) }
                } else {
                    Action::Jump(target)
                };
            }
            Inst::Loop { last, .. } => return Action::Loop { last },
            Inst::Jump { test, target } => {
                if holds(test, uniforms, unit) {
                    return Action::Jump(target);
                }
            }
        }
        Action::Next
    }
}

/// The next pc; decides by the innermost loop's counter.
fn transfer(next: Next, scopes: &mut Scopes, counters: &mut Ring<Counter, 4>, al: &mut i32) -> Pc {
    let (again, exit) = match next {
        Next::Go(pc) => return pc,
        Next::LoopEnd { again, exit } => (Some(again), exit),
        Next::LoopBreak { exit } => (None, exit),
    };
    let counter = counters.top_mut().expect("counters are pushed and popped together with loop scopes");
    *al = al.wrapping_add(i32::from(counter.inc));
    if let (Some(again), Some(left)) = (again, counter.left.checked_sub(1)) {
        counter.left = left;
        return again;
    }
    let saved = counter.saved;
    counters.pop();
    if scopes.leave_loop() {
        *al = saved;
    }
    exit
}

fn holds(test: Test, uniforms: &Uniforms, unit: &Unit) -> bool {
    match test {
        Test::Flags(cond) => cond.eval(unit.cmp),
        Test::Bool { id, value } => (uniforms.b >> (id & 0xF) & 1 != 0) == value,
    }
}

fn fetch(p: Precision, src: &Src, uniforms: &Uniforms, unit: &Unit) -> Vec4 {
    let value = match src.reg.file() {
        SrcFile::Input(n) => unit.v[usize::from(n)].map(|x| p.operand(x)),
        SrcFile::Temp(n) => unit.r[usize::from(n)],
        SrcFile::Uniform(n) => relative(n, src.index, uniforms, unit).map(|x| p.operand(x)),
    };
    src.swizzle.components().map(|c| if src.negate { -value[c] } else { value[c] })
}

/// Uniform `n` plus an address register. The rules were measured on consoles (ISA notes, 2.4); the
/// bits of aL that count are *unknown on hardware*; it is treated like a0.
fn relative(n: u8, index: Index, uniforms: &Uniforms, unit: &Unit) -> Vec4 {
    let index = match index {
        Index::None => 0,
        Index::A0x => unit.a0[0],
        Index::A0y => unit.a0[1],
        Index::AL => unit.al,
    };
    let index = if (-128..=127).contains(&index) { index } else { 0 };
    let n = ((i32::from(n) + index) & 0x7F) as usize;
    if n < FLOAT_UNIFORMS { uniforms.c[n] } else { [1.0; 4] }
}

fn execute_alu(p: Precision, alu: &Alu, uniforms: &Uniforms, unit: &mut Unit) {
    let sources = alu.src.map(|src| fetch(p, &src, uniforms, unit));
    let result = match alu.operation() {
        AluOp::Vector(op) => {
            if op == VectorOp::Litp {
                // Whether the mask suppresses the flags is *unknown on hardware*; here it does not.
                unit.cmp = [p.compare(Relation::Ge, sources[0][0], 0.0), p.compare(Relation::Ge, sources[0][3], 0.0)];
            }
            p.vector(op, sources)
        }
        AluOp::Scalar(op) => [p.scalar(op, sources[0][0]); 4],
    };
    write(
        result,
        alu.mask,
        match alu.dst.file() {
            DstFile::Output(n) => &mut unit.o[usize::from(unit.bank & 1)][usize::from(n)],
            DstFile::Temp(n) => &mut unit.r[usize::from(n)],
        },
    );
}

fn write(value: Vec4, mask: WriteMask, register: &mut Vec4) {
    for c in 0..4 {
        if mask.has(c) {
            register[c] = value[c];
        }
    }
}

/// One test of `CMP`.
fn compare(p: Precision, op: CmpOp, a: f32, b: f32) -> bool {
    op.relation().is_none_or(|op| p.compare(op, a, b))
}

#[cfg(test)]
mod tests;
