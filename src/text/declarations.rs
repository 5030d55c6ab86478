//! Declarations -> registers, and the tables of one DVLE.
//!
//! Uniforms are allocated upwards from the start of their pool, constants downwards from its end.
//! Vertex files share one register space, so that a uniform has the same register in all of them
//! (language notes, section 6). A [`DvleBuilder`] collects one file's declarations and becomes a
//! [`Dvle`].

use super::error::AsmErrorKind;
use super::limits::{MAX_DECLARATIONS, MAX_OUTPUTS, MAX_ROWS};
use super::registers::{Class, FLOAT};
use crate::container::shbin::{Constant, Dvle, GeometryMode, Label, Output, Uniform};
use crate::isa::Stage;
use std::collections::HashMap;

/// Free registers of one class: `next` is the lowest; constants bound them from above.
#[derive(Clone, Copy, Debug)]
struct Pool {
    start: u32,
    end: u32,
    next: u32,
    /// Registers of uniforms, and those of them that the source gives; bit n is register n.
    uniforms: u128,
    given: u128,
    /// Registers of constants of any file.
    constants: u128,
    /// Lowest constant of the current file.
    local: u32,
    /// Lowest constant of any file.
    bound: u32,
}

impl Pool {
    fn new(start: u32, end: u32) -> Pool {
        Pool { start, end, next: start, uniforms: 0, given: 0, constants: 0, local: end, bound: end }
    }
}

/// Registers as bits.
fn bits(first: u32, size: u32) -> u128 {
    ((1 << size.min(127)) - 1) << first.min(127)
}

impl Pool {
    /// The lowest `size` registers from `next` on that the source gives to no uniform.
    fn lowest(&self, size: u32) -> u32 {
        let fits = |first: &u32| self.given & bits(*first, size) == 0;
        (self.next..=self.end).find(fits).unwrap_or(self.end)
    }

    /// The highest `size` registers below `local` that the source gives to no uniform.
    fn highest(&self, size: u32) -> Option<u32> {
        let highest = self.local.checked_sub(size)?;
        (self.next..=highest).rev().find(|&first| self.given & bits(first, size) == 0)
    }
}

/// The registers available to the uniforms and constants of one file, or of all vertex files.
#[derive(Clone, Debug)]
pub(super) struct RegisterSpace<'s> {
    pools: [Pool; 3],
    /// Uniforms by name: class, register within it, size.
    known: HashMap<&'s str, (Class, u32, u32)>,
    /// Declarations made, repeated ones included.
    declarations: usize,
    /// Declarations allowed.
    limit: usize,
}

impl<'s> RegisterSpace<'s> {
    /// The space that all vertex files share.
    pub(super) fn shared() -> RegisterSpace<'s> {
        RegisterSpace::new(0, 16, MAX_DECLARATIONS)
    }
    /// The space of one geometry file, whose float uniforms begin at `first`. b15 belongs to the
    /// hardware.
    pub(super) fn geometry(first: u32) -> RegisterSpace<'s> {
        RegisterSpace::new(first, 15, usize::MAX)
    }
    fn new(first: u32, bools: u32, limit: usize) -> RegisterSpace<'s> {
        let pools = [Pool::new(first, 96), Pool::new(0, 4), Pool::new(0, bools)];
        RegisterSpace { pools, known: HashMap::new(), declarations: 0, limit }
    }

    /// Whether no further declaration is possible.
    pub(super) fn is_full(&self) -> bool {
        self.declarations >= self.limit
    }
    /// The error for a full space.
    pub(super) fn full(&self) -> AsmErrorKind {
        AsmErrorKind::TableFull { what: "uniforms", limit: self.limit }
    }

    /// Starts a new file, whose constants begin at the top again.
    pub(super) fn next_file(&mut self) {
        self.pools.iter_mut().for_each(|p| p.local = p.end);
    }

    /// Allocates a uniform. A declaration equal to an earlier file's returns the same registers.
    pub(super) fn uniform(&mut self, class: Class, name: &'s str, size: u32) -> Result<u32, AsmErrorKind> {
        if self.is_full() {
            return Err(self.full());
        }
        self.declarations += 1;
        if let Some(&(c, register, n)) = self.known.get(name) {
            let same = c == class && n == size;
            return if same { Ok(register) } else { Err(AsmErrorKind::UniformChanged(name.into())) };
        }
        let pool = &mut self.pools[class as usize];
        let register = pool.lowest(size);
        if size > pool.local.min(pool.bound).saturating_sub(register) {
            return Err(AsmErrorKind::UniformsFull { class: class.name() });
        }
        pool.next = register + size;
        pool.uniforms |= bits(register, size);
        self.known.insert(name, (class, register, size));
        Ok(register)
    }

    /// A uniform in the registers from `first` on, which the source gives (beyond picasso).
    pub(super) fn fixed_uniform(
        &mut self,
        class: Class,
        name: &'s str,
        size: u32,
        first: u32,
    ) -> Result<u32, AsmErrorKind> {
        if self.is_full() {
            return Err(self.full());
        }
        self.declarations += 1;
        if let Some(&known) = self.known.get(name) {
            let same = known == (class, first, size);
            return if same { Ok(first) } else { Err(AsmErrorKind::UniformChanged(name.into())) };
        }
        let pool = &mut self.pools[class as usize];
        let wanted = bits(first, size);
        if first < pool.start || first + size > pool.end || (pool.uniforms | pool.constants) & wanted != 0 {
            return Err(AsmErrorKind::RegisterTaken(format!("{}{first}", class.letter())));
        }
        pool.uniforms |= wanted;
        pool.given |= wanted;
        self.known.insert(name, (class, first, size));
        Ok(first)
    }

    /// Allocates a constant or an array of constants.
    pub(super) fn constant(&mut self, class: Class, size: u32) -> Result<u32, AsmErrorKind> {
        let pool = &mut self.pools[class as usize];
        let Some(first) = pool.highest(size) else {
            return Err(AsmErrorKind::UniformsFull { class: class.name() });
        };
        pool.local = first;
        pool.constants |= bits(first, size);
        pool.bound = pool.bound.min(pool.local);
        Ok(pool.local)
    }
}

/// The tables of one file's DVLE.
#[derive(Clone, Debug)]
pub(super) struct DvleBuilder {
    pub version: u16,
    pub stage: Stage,
    pub geometry: GeometryMode,
    /// A mode was given. A `.gsh` without one, explicit or implied by `setemit`, shares the vertex
    /// files' uniforms.
    pub has_mode: bool,
    pub merge_outmaps: bool,
    pub input_mask: u16,
    /// Assigned components per output register, bit 0 = x.
    assigned: [u8; 16],
    output_mask: u16,
    constants: Vec<Constant>,
    outputs: Vec<Output>,
    uniforms: Vec<Uniform>,
    /// Debug labels, verbatim; picasso writes none.
    pub labels: Vec<Label>,
}

impl Default for DvleBuilder {
    fn default() -> DvleBuilder {
        DvleBuilder {
            version: VERSION,
            stage: Stage::Vertex,
            geometry: GeometryMode::Point,
            has_mode: false,
            merge_outmaps: false,
            input_mask: 0,
            assigned: [0; 16],
            output_mask: 0,
            constants: Vec::new(),
            outputs: Vec::new(),
            uniforms: Vec::new(),
            labels: Vec::new(),
        }
    }
}

/// Version of an entry point, as picasso writes it.
pub(super) const VERSION: u16 = 0x1002;

/// The output property for dummies.
pub(super) const DUMMY: u16 = 9;

impl DvleBuilder {
    pub(super) fn constant(&mut self, c: Constant) -> Result<(), AsmErrorKind> {
        if self.constants.len() >= MAX_ROWS {
            return Err(AsmErrorKind::TableFull { what: "constants", limit: MAX_ROWS });
        }
        self.constants.push(c);
        Ok(())
    }

    /// A row of the uniform table: `size` registers from `reg` on, in the operands' common space.
    pub(super) fn name(&mut self, name: &str, reg: u32, size: u32) -> Result<(), AsmErrorKind> {
        if self.uniforms.len() >= MAX_ROWS {
            return Err(AsmErrorKind::TableFull { what: "names of uniforms and inputs", limit: MAX_ROWS });
        }
        // The table has no r registers, so the numbers after the inputs are lower by sixteen
        // (container notes 4.4).
        let first = (if reg >= FLOAT { reg - 0x10 } else { reg }) as u16;
        let last = first + (size - 1) as u16;
        self.uniforms.push(Uniform { name: name.replace('$', "."), first, last });
        Ok(())
    }

    /// Declares an input: the given register, or the lowest free one.
    pub(super) fn input(&mut self, register: Option<u8>) -> Result<u8, AsmErrorKind> {
        let free = self.input_mask.trailing_ones() as u8;
        let register = register.unwrap_or(free);
        if register > 15 {
            return Err(AsmErrorKind::TableFull { what: "inputs", limit: 16 });
        }
        self.input_mask |= 1 << register;
        Ok(register)
    }

    /// Declares an output. `mask` has bit 0 = x.
    pub(super) fn output(&mut self, semantic: u16, register: Option<u8>, mask: u8) -> Result<u8, AsmErrorKind> {
        if self.outputs.len() >= MAX_OUTPUTS {
            return Err(AsmErrorKind::TableFull { what: "outputs", limit: MAX_OUTPUTS });
        }
        let register = match register {
            Some(r) if r > 7 => return Err(AsmErrorKind::OutputByNumber(format!("o{r}"))),
            Some(r) if self.assigned[usize::from(r)] & mask != 0 => {
                return Err(AsmErrorKind::ComponentsTaken(format!("o{r}")));
            }
            Some(r) => r,
            None => match self.output_mask.trailing_ones() {
                r @ 0..16 => r as u8,
                _ => return Err(AsmErrorKind::TableFull { what: "outputs", limit: MAX_OUTPUTS }),
            },
        };
        if register >= 7 && semantic != DUMMY {
            return Err(AsmErrorKind::DummyOnly(format!("o{register}")));
        }
        self.merge_outmaps |= semantic == DUMMY && self.has_mode;
        self.raw_output(Output { semantic, register: register.into(), mask: mask.into(), unknown: 0 })?;
        Ok(register)
    }

    /// Appends a row to the output table, verbatim.
    pub(super) fn raw_output(&mut self, output: Output) -> Result<(), AsmErrorKind> {
        if self.outputs.len() >= MAX_OUTPUTS {
            return Err(AsmErrorKind::TableFull { what: "outputs", limit: MAX_OUTPUTS });
        }
        let register = usize::from(output.register & 0xF);
        self.assigned[register] |= output.mask as u8 & 0xF;
        self.output_mask |= 1 << register;
        self.outputs.push(output);
        Ok(())
    }

    /// Whether the file has no declaration that `.gsh` must precede.
    pub(super) fn is_fresh(&self) -> bool {
        self.constants.is_empty() && self.outputs.is_empty() && self.uniforms.is_empty() && self.input_mask == 0
    }

    /// The finished entry point.
    pub(super) fn finish(mut self, entry: u32, end: u32) -> Dvle {
        self.uniforms.sort_by_key(|u| u.first);
        Dvle {
            version: self.version,
            stage: self.stage,
            merge_outmaps: self.merge_outmaps,
            entry,
            end,
            input_mask: self.input_mask,
            output_mask: self.output_mask,
            geometry: self.geometry,
            constants: self.constants,
            labels: self.labels,
            outputs: self.outputs,
            uniforms: self.uniforms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniforms_and_constants_meet_in_the_middle() {
        let mut s = RegisterSpace::shared();
        assert_eq!(s.uniform(Class::Float, "m", 90), Ok(0));
        assert_eq!(s.constant(Class::Float, 4), Ok(92));
        assert_eq!(s.uniform(Class::Float, "n", 3), Err(AsmErrorKind::UniformsFull { class: "float" }));
        assert_eq!(s.uniform(Class::Float, "n", 2), Ok(90));
        assert_eq!(s.constant(Class::Float, 1), Err(AsmErrorKind::UniformsFull { class: "float" }));
        // The next file's constants start at the top again, but the first file's constants still
        // bound the uniforms.
        s.next_file();
        assert_eq!(s.constant(Class::Float, 1), Ok(95));
        assert_eq!(s.uniform(Class::Float, "m", 90), Ok(0));
        assert_eq!(s.uniform(Class::Int, "m", 1), Err(AsmErrorKind::UniformChanged("m".into())));
        assert_eq!(
            RegisterSpace::geometry(4).uniform(Class::Bool, "b", 16),
            Err(AsmErrorKind::UniformsFull { class: "boolean" })
        );
    }
}
