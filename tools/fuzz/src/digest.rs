//! Cases x one engine -> a line of text for each: a hash of every result. The text of two machines,
//! CPUs or engines can be compared with `diff`.
//!
//! Invariant: the lines depend on the plan and on the engine's results, not on threads, nor on the
//! bits of a NaN.

use super::blocks;
use super::case::Case;
use super::compare::Engine;
use super::sweep::Plan;
use picajit::internals::diff::UNTOUCHED;
use picajit::internals::kernel::{Kernel, copy_registers};
use picajit::state::{Batch, Emitter, Exit, Registers, Unit};
use std::fmt::{self, Write};
use std::ops::ControlFlow;

/// An engine's results on a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Exits in the order of their first occurrence, with their counts.
    pub exits: Vec<(Exit, u32)>,
    /// Triangles emitted while vertices ran singly.
    pub triangles: u32,
    /// Hash of all registers, flags, copied outputs, exits and triangles, after each vertex and
    /// after one batch of all.
    pub hash: u64,
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} triangles={}", self.hash, self.triangles)?;
        self.exits.iter().try_for_each(|(exit, count)| write!(f, " {exit:?}={count}"))
    }
}

/// A 64-bit hash that depends on every bit put in.
struct Hash(u64);

impl Hash {
    fn word(&mut self, word: u32) {
        // Multiplying by an odd number is a bijection; the shift moves upper bits down, which it
        // never does.
        let mixed = (self.0 ^ u64::from(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn registers(&mut self, registers: &Registers) {
        // CPUs disagree about sign and payload of a new NaN, so all NaN hash alike.
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        registers.as_flattened().iter().map(bits).for_each(|word| self.word(word));
    }

    /// Hashes the whole unit. The exhaustive pattern makes a new field a compile error here.
    fn unit(&mut self, unit: &Unit) {
        let Unit { v, r, o, slots, a0, al, cmp, bank, setemit } = unit;
        [v, r].into_iter().chain(o).chain(slots).for_each(|file| self.registers(file));
        [a0[0], a0[1], *al].into_iter().for_each(|word| self.word(word.cast_unsigned()));
        [cmp[0], cmp[1], setemit.primitive, setemit.winding].into_iter().for_each(|flag| self.word(flag.into()));
        self.word(u32::from(*bank) << 8 | u32::from(setemit.vertex));
    }

    fn exit(&mut self, exit: Exit) {
        self.word(exit as u32);
    }
}

/// Hashes emitted triangles, in order.
struct Triangles<'a> {
    hash: &'a mut Hash,
    count: u32,
}

impl Emitter for Triangles<'_> {
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
        vertices.into_iter().for_each(|v| self.hash.registers(v));
        self.hash.word(winding.into());
        self.count += 1;
    }
}

/// Runs `case` on `kernel`, which was compiled from it.
pub fn digest(case: &Case, kernel: &dyn Kernel) -> Digest {
    let Case { uniforms, inputs, input_mask, output_mask, .. } = case;
    let (mut digest, mut hash) = (Digest::default(), Hash(0));
    let mut unit = case.unit.clone();
    for input in inputs {
        copy_registers(*input_mask, input, &mut unit.v);
        let mut triangles = Triangles { hash: &mut hash, count: 0 };
        let exit = kernel.run(uniforms, &mut unit, &mut triangles);
        digest.triangles += triangles.count;
        hash.unit(&unit);
        hash.exit(exit);
        match digest.exits.iter_mut().find(|(e, _)| *e == exit) {
            Some((_, count)) => *count += 1,
            None => digest.exits.push((exit, 1)),
        }
    }
    let (mut unit, mut outputs) = (case.unit.clone(), vec![UNTOUCHED; inputs.len()]);
    let mut batch = Batch {
        inputs: inputs.into(),
        outputs: (&mut outputs).into(),
        input_mask: *input_mask,
        output_mask: *output_mask,
        preserve_unit: false,
    };
    let exit = kernel.run_batch(uniforms, &mut unit, &mut batch, &mut Triangles { hash: &mut hash, count: 0 }).exit;
    outputs.iter().for_each(|registers| hash.registers(registers));
    hash.unit(&unit);
    hash.exit(exit);
    digest.hash = hash.0;
    digest
}

/// One line for a program and number format. A rejected program has the reason instead of a hash.
fn line(seed: u64, case: &Case, engine: Engine<'_>) -> String {
    let mut line = format!("{seed} {}", case.config.precision);
    let written = match engine.backend.compile(&case.program, case.entry, &case.config) {
        Ok(kernel) => writeln!(line, " {}", digest(case, &*kernel)),
        // Versions are compared by this text, so its words don't change.
        Err(reason) => writeln!(line, " refused: {reason}"),
    };
    written.expect("text takes all that is written to it");
    line
}

/// Runs the plan's programs on `engine` and passes their lines to `take`, many at a time, in
/// program order, until it breaks. Ignores `plan.until`: an incomplete list could not be compared.
pub fn digests<B>(plan: &Plan, engine: Engine<'_>, take: &mut dyn FnMut(&str) -> ControlFlow<B>) -> ControlFlow<B> {
    let work = |n| {
        let mut lines = String::new();
        for program in blocks::programs(n, plan.programs) {
            let seed = plan.seed.wrapping_add(program);
            plan.cases(program).iter().for_each(|case| lines += &line(seed, case, engine));
        }
        lines
    };
    blocks::in_order(blocks::count(plan.programs), plan.threads, || true, work, |lines| take(&lines))
}

#[cfg(test)]
mod tests {
    use super::super::case_from_seed;
    use super::*;
    use picajit::internals::interp::Interp;
    use picajit::isa::numeric::Precision;

    /// `all`, or `few` under Miri, which is about a thousand times slower.
    const fn miri_or<T: Copy>(few: T, all: T) -> T {
        if cfg!(miri) { few } else { all }
    }

    const PROGRAMS: u64 = miri_or(2, 70);
    const INTERP: Engine<'static> = Engine { name: "interp", backend: &Interp };

    fn text(threads: usize) -> String {
        let plan = Plan { programs: PROGRAMS, threads, precisions: Precision::ALL.to_vec(), ..Plan::default() };
        let mut text = String::new();
        let whole = digests(&plan, INTERP, &mut |lines| {
            text += lines;
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(whole, ControlFlow::Continue(()));
        text
    }

    #[test]
    fn lines_do_not_depend_on_threads_and_name_every_program() {
        let one = text(1);
        assert_eq!(one, text(3));
        let names: Vec<_> = one.lines().map(|l| l.rsplitn(2, " triangles=").last().unwrap().to_string()).collect();
        let seeds: Vec<_> = one.lines().map(|l| l.split(' ').next().unwrap().parse::<u64>().unwrap()).collect();
        assert_eq!(seeds, (1..=PROGRAMS).flat_map(|n| [n; Precision::ALL.len()]).collect::<Vec<_>>());
        let hashes: std::collections::HashSet<_> = names.iter().map(|l| l.split(' ').nth(2).unwrap()).collect();
        // Some programs give the same results in two formats.
        assert!(hashes.len() > miri_or(2, 140), "{}", hashes.len());
    }

    #[test]
    fn every_field_counts_and_nan_bits_do_not() {
        let hash = |change: &dyn Fn(&mut Unit)| {
            let (mut unit, mut hash) = (Unit::new(), Hash(0));
            change(&mut unit);
            hash.unit(&unit);
            hash.0
        };
        let changes: [&dyn Fn(&mut Unit); 14] = [
            &|_| (),
            &|u| u.v[15][3] = -0.0,
            &|u| u.r[0][0] = 1.0,
            &|u| u.o[0][0][0] = 1.0,
            &|u| u.o[1][0][0] = 1.0,
            &|u| u.slots[3][15][3] = 1.0,
            &|u| u.a0[0] = 1,
            &|u| u.a0[1] = 1,
            &|u| u.al = 1,
            &|u| u.cmp[0] = true,
            &|u| u.cmp[1] = true,
            &|u| u.bank = 1,
            &|u| u.setemit.vertex = 1,
            &|u| u.setemit.winding = true,
        ];
        let all: std::collections::HashSet<_> = changes.iter().map(|c| hash(c)).collect();
        assert_eq!(all.len(), changes.len());
        assert_eq!(hash(&|u| u.r[0][0] = f32::NAN), hash(&|u| u.r[0][0] = f32::from_bits(0xFFC0_1234)));
    }

    #[test]
    fn a_break_ends_the_work() {
        let plan = Plan { programs: miri_or(2, u64::MAX), threads: 2, ..Plan::default() };
        assert_eq!(digests(&plan, INTERP, &mut |_| ControlFlow::Break(7)), ControlFlow::Break(7));
    }

    #[test]
    fn exits_are_counted() {
        const MOST: usize = miri_or(2, 9);
        let case = (0..).map(|seed| case_from_seed(seed, None, MOST as u32)).find(|c| c.inputs.len() == MOST).unwrap();
        let digest = digest(&case, &case.interp());
        assert_eq!(digest.exits.iter().map(|(_, count)| count).sum::<u32>(), MOST as u32);
    }
}
