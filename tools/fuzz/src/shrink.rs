//! [`Divergence`] -> a smaller one: fewer vertices and words, plainer instructions, zeros in
//! registers.
//!
//! A candidate is accepted if any engine still differs from the interpreter. Engine and place may
//! change, so the original is recorded as text. Edits are tried in a fixed order, at most
//! [`MAX_ATTEMPTS`] of them: the result depends on the case alone. The number format stays.

use super::case::Case;
use super::compare::{Divergence, Engine, REFERENCE, compare};
use super::edit;
use picajit::internals::kernel::default_fuel;
use picajit::isa::Stage;
use picajit::program::{Entry, Program};
use picajit::state::{EmitState, Exit, Vec4};
use std::sync::Arc;

/// Candidates that are tried for one divergence. Most need a few hundred.
pub const MAX_ATTEMPTS: usize = 4000;
/// Most passes over all edits; another pass follows one that has accepted an edit.
const MAX_ROUNDS: usize = 4;
/// Values for components that can't become zero.
const SIMPLE: [f32; 4] = [1.0, 2.0, -1.0, 0.5];

/// A smaller case on which one of `engines` still diverges, after at most [`MAX_ATTEMPTS`]
/// comparisons.
pub fn shrink(found: Box<Divergence>, engines: &[Engine<'_>]) -> Box<Divergence> {
    let mut engines = engines.to_vec();
    // The engine that is known to diverge runs first.
    engines.sort_by_key(|e| e.name != found.engine);
    let originally = found.originally.clone().unwrap_or_else(|| found.summary());
    let mut shrinker = Shrinker { best: found, engines, left: MAX_ATTEMPTS };
    for _ in 0..MAX_ROUNDS {
        let mut helped = shrinker.vertices();
        helped |= shrinker.words();
        helped |= shrinker.descriptors();
        helped |= shrinker.operands();
        helped |= shrinker.uniforms();
        helped |= shrinker.registers();
        if !helped {
            break;
        }
    }
    shrinker.finish();
    shrinker.best.originally = Some(originally);
    shrinker.best
}

struct Shrinker<'a> {
    best: Box<Divergence>,
    engines: Vec<Engine<'a>>,
    left: usize,
}

impl Shrinker<'_> {
    fn case(&self) -> &Case {
        &self.best.case
    }

    /// Whether the case changed by `change` still diverges; if so it becomes the best one.
    fn attempt(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        let mut case = self.case().clone();
        change(&mut case);
        self.left > 0 && {
            self.left -= 1;
            compare(&case, &self.engines).is_err_and(|smaller| {
                self.best = smaller;
                true
            })
        }
    }

    fn attempt_program(&mut self, program: Option<Program>) -> bool {
        program.is_some_and(|program| self.attempt(|case| case.program = Arc::new(program)))
    }

    /// Calls `attempt` for parts of `0..count`: the whole, halves, and so on down to single
    /// elements, from the back. `attempt` returns how many elements it has removed.
    fn parts(&mut self, mut count: usize, mut attempt: impl FnMut(&mut Self, usize, usize) -> usize) -> bool {
        let mut helped = false;
        let mut size = count;
        while size > 0 {
            let mut end = count;
            while end > 0 {
                let start = end.saturating_sub(size);
                let gone = attempt(self, start, end);
                helped |= gone > 0;
                count -= gone;
                end = start;
            }
            size /= 2;
        }
        helped
    }

    fn vertices(&mut self) -> bool {
        let mut helped = false;
        let vertex = self.best.vertex();
        if self.case().inputs.len() > 1 {
            helped |= self.attempt(|case| *case = case.alone(vertex));
        }
        if self.case().inputs.len() > vertex + 1 {
            helped |= self.attempt(|case| case.inputs.truncate(vertex + 1));
        }
        helped |= self.parts(self.case().inputs.len(), |this, start, end| {
            let all = end - start == this.case().inputs.len();
            let went = !all && this.attempt(|case| drop(case.inputs.drain(start..end)));
            if went { end - start } else { 0 }
        });
        if (self.case().input_mask, self.case().output_mask) != (u16::MAX, u16::MAX) {
            // The unit holds the inputs that the masks leave out.
            helped |= self.attempt(|case| {
                let (mask, v) = (case.input_mask, case.unit.v);
                for (n, value) in v.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 0) {
                    case.inputs.iter_mut().for_each(|input| input[n] = *value);
                }
                (case.input_mask, case.output_mask) = (u16::MAX, u16::MAX);
            });
        }
        if self.case().entry.stage == Stage::Geometry {
            helped |= self.attempt(|case| case.entry.stage = Stage::Vertex);
        }
        helped
    }

    /// Deletes words, or makes them `NOP` where deletion fails.
    fn words(&mut self) -> bool {
        let before = self.case().program.code().len();
        let mut helped = self.parts(before, |this, start, end| {
            let code = this.case().program.code();
            // The final `END` is kept: without it, runs end past the last word.
            let end = end - usize::from(end == code.len() && code.last() == Some(&edit::END));
            if start >= end || end - start == code.len() {
                return 0;
            }
            let went = this.attempt(|case| {
                let (program, pc) = edit::delete(&case.program, case.entry.pc, start..end);
                (case.program, case.entry) = (Arc::new(program), Entry { pc, ..case.entry });
            });
            if went { end - start } else { 0 }
        });
        for at in 0..self.case().program.code().len() {
            let program = &self.case().program;
            if ![edit::NOP, edit::END].contains(&program.code()[at]) {
                let plainer = edit::with_code(program, |code| code[at] = edit::NOP);
                helped |= self.attempt_program(Some(plainer));
            }
        }
        helped
    }

    fn descriptors(&mut self) -> bool {
        let mut helped = false;
        for plain in [true, false] {
            let compact = edit::compact(&self.case().program, plain);
            helped |= self.attempt_program(compact.filter(|new| *new != *self.case().program));
        }
        helped
    }

    fn operands(&mut self) -> bool {
        let mut helped = false;
        for pc in 0..self.case().program.code().len() {
            for kind in 0..edit::KINDS {
                let program = &self.case().program;
                let inst = program.inst(pc as u16).expect("pc is inside the code");
                let plainer = edit::simpler(&inst, kind).and_then(|inst| edit::replace(program, pc, &inst));
                helped |= self.attempt_program(plainer);
            }
        }
        if helped {
            self.descriptors();
        }
        helped
    }

    fn uniforms(&mut self) -> bool {
        let mut helped = self.cells(|case| case.uniforms.c.iter_mut().collect());
        let zero = |this: &mut Self, at: usize| {
            let [i, byte] = [at / 4, at % 4];
            let now = this.case().uniforms.i[i][byte];
            let plainer = [0, 1, now / 2];
            plainer.into_iter().any(|new| new < now && this.attempt(|case| case.uniforms.i[i][byte] = new))
        };
        if self.case().uniforms.i != [[0; 4]; 4] && self.attempt(|case| case.uniforms.i = [[0; 4]; 4]) {
            helped = true;
        }
        for at in 0..16 {
            helped |= zero(self, at);
        }
        for mask in [0].into_iter().chain((0..16).map(|bit| !(1 << bit))) {
            let b = self.case().uniforms.b;
            helped |= b & mask != b && self.attempt(|case| case.uniforms.b &= mask);
        }
        helped
    }

    fn registers(&mut self) -> bool {
        // The unit's own inputs have no effect where all of them are loaded, so they are cleared
        // first.
        let mut helped = self.cells(|case| {
            let unit = &mut case.unit;
            let files = unit.slots.iter_mut().chain(&mut unit.o).chain([&mut unit.r, &mut unit.v]);
            case.inputs.iter_mut().chain(files).flatten().collect()
        });
        let plainer: [fn(&mut Case); 7] = [
            |case| case.unit.a0[0] = 0,
            |case| case.unit.a0[1] = 0,
            |case| case.unit.al = 0,
            |case| case.unit.cmp[0] = false,
            |case| case.unit.cmp[1] = false,
            |case| case.unit.bank = 0,
            |case| case.unit.setemit = EmitState::default(),
        ];
        let scalars = |case: &Case| {
            let unit = &case.unit;
            (unit.a0, unit.al, unit.cmp, unit.bank, unit.setemit)
        };
        for change in plainer {
            let mut case = self.case().clone();
            change(&mut case);
            helped |= scalars(&case) != scalars(self.case()) && self.attempt(change);
        }
        helped
    }

    /// Makes vectors zero, or else simplifies their components.
    fn cells(&mut self, of: fn(&mut Case) -> Vec<&mut Vec4>) -> bool {
        let values = |this: &Self| -> Vec<Vec4> { of(&mut this.case().clone()).into_iter().map(|v| *v).collect() };
        let is_zero = |v: &Vec4| v.iter().all(|x| x.to_bits() == 0);
        let mut now = values(self);
        let mut helped = false;
        self.parts(now.len(), |this, start, end| {
            let useful = !now[start..end].iter().all(is_zero);
            if useful && this.attempt(|case| of(case)[start..end].iter_mut().for_each(|cell| **cell = [0.0; 4])) {
                now[start..end].fill([0.0; 4]);
                helped = true;
            }
            0
        });
        for (n, value) in now.iter().enumerate().filter(|(_, v)| !is_zero(v)) {
            for (lane, &x) in value.iter().enumerate() {
                let plainer = std::iter::once(0.0).chain(SIMPLE).chain([x.trunc()]);
                let plainer = plainer.take_while(|new| new.to_bits() != x.to_bits());
                helped |= plainer.into_iter().any(|new| self.attempt(|case| of(case)[n][lane] = new));
            }
        }
        helped
    }

    /// Edits that make a case easier to read, though not smaller.
    fn finish(&mut self) {
        let code = self.case().program.code();
        if code.last() != Some(&edit::END) && code.len() < picajit::isa::MAX_CODE_WORDS {
            let ended = edit::with_code(&self.case().program, |code| code.push(edit::END));
            if self.attempt_program(Some(ended)) {
                self.words();
            }
        }
        let fuel = self.case().config.fuel;
        // Where all runs end by themselves, more fuel changes nothing on the interpreter.
        let work = self.case().work();
        let interp = self.case().interp();
        let side = picajit::internals::diff::NamedKernel { name: REFERENCE, kernel: &interp };
        let ends = picajit::internals::diff::Reference::run(side, &work).exits().all(|exit| exit != Exit::Fuel);
        let default = default_fuel(self.case().entry.stage);
        if ends && fuel != default {
            self.attempt(|case| case.config.fuel = default);
        } else if !ends {
            let _ =
                [0, 1, 2, 4, 8, 16].into_iter().any(|new| new < fuel && self.attempt(|case| case.config.fuel = new));
        }
    }
}
