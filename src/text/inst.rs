//! Instruction statements -> words.
//!
//! One function per operand shape; `isa::encode` does the encoding. The operands select the form
//! with a wide second or third source ([`choose_form`]); a mnemonic that ends in `!` selects it
//! exactly. The `r...` forms of the transfers take addresses and lengths as numbers.

use super::args::Args;
use super::context::{Assembler, Block, Field, number};
use super::error::{AsmErrorKind, Fault, Parse, clip, expected, fault};
use super::operand::{Operand, Use, condition, parse_components};
use super::registers::{BOOL, INT};
use super::span::Span;
use super::warning::WarningKind;
use crate::isa::EncodeError;
use crate::isa::table::{Format, ROWS, Row};
use crate::isa::{Alu, CmpOp, Cond, CondOp, Index, Inst, Opcode, Setemit, Src, SrcFile, Test, WriteMask};

/// The encoding of the operation `op` (a normal form) with these sources.
pub(super) fn choose_form(op: Opcode, src: &[Src]) -> Opcode {
    let uniform = |n: usize| src.get(n).is_some_and(|s| !s.reg.is_narrow());
    let indexed = |n: usize| src.get(n).is_some_and(|s| s.index != Index::None);
    match op {
        Opcode::Dph if !uniform(0) && uniform(1) => Opcode::Dphi,
        Opcode::Dst if !uniform(0) && uniform(1) => Opcode::Dsti,
        Opcode::Sge if !uniform(0) && uniform(1) => Opcode::Sgei,
        Opcode::Slt if !uniform(0) && uniform(1) => Opcode::Slti,
        Opcode::Mad if !uniform(1) && (uniform(2) || indexed(2) && !indexed(1)) => Opcode::Madi,
        op => op,
    }
}

impl<'s> Assembler<'s> {
    pub(super) fn instruction(&mut self, head: Span<'s>, rest: Span<'s>) -> Parse<()> {
        let (name, exact) = match head.text.strip_suffix('!') {
            Some(_) => (head.take(head.text.len() - 1), true),
            None => (head, false),
        };
        let Some((row, raw)) = find_row(name, exact) else {
            return fault(head, AsmErrorKind::UnknownMnemonic(clip(head.text)));
        };
        self.begin_instruction(head)?;
        self.trailing_comma(rest);
        let (rest, at) = match rest.cut('@') {
            // Without `.raw` it is ignored text after an operand, as in picasso.
            Some((rest, at)) if row.has_opdesc() && self.file.names.raw => (rest.trim(), Some(at.trim())),
            _ => (rest, None),
        };
        let at = at.map(number).transpose()?;
        let mut args = Args::new(rest.arguments(), rest);
        match row.format {
            Format::F0 => {
                args.done()?;
                self.emit((row.opcode as u32) << 26, false, head).map(|_| ())
            }
            Format::F1a => {
                let mask = address_mask(args.next("a0.x, a0.y or a0.xy")?)?;
                let src = self.source(&mut args)?.src()?;
                args.done()?;
                self.operation(Inst::Mova { mask, src }, at, head)
            }
            Format::F1c => self.compare(args, at, head),
            Format::F1 | Format::F1i | Format::F1u | Format::F5 | Format::F5i => {
                let (dst, mask) = self.file.names.destination(args.next("a destination")?)?;
                let mut src = [Alu::NO_SRC; 3];
                let mut seen = Vec::new();
                for slot in src.iter_mut().take(row.sources()) {
                    let operand = self.source(&mut args)?;
                    *slot = operand.src()?;
                    seen.push(operand);
                }
                args.done()?;
                let sources = &src[..row.sources()];
                let op = if exact { row.opcode } else { choose_form(row.opcode.normal_form(), sources) };
                self.check_sources(sources, &seen)?;
                let inst = Inst::Alu(Alu { op, dst, mask, src });
                self.narrow(&inst, &seen)?;
                self.operation(inst, at, head)
            }
            Format::F4 => self.setemit(args, head),
            Format::F2 | Format::F3 if raw => self.raw_transfer(row, args, head),
            Format::F2 | Format::F3 => self.transfer(row, args, head),
        }
    }

    fn source(&mut self, args: &mut Args<'s>) -> Parse<Operand<'s>> {
        let arg = args.next("a source")?;
        let operand = self.file.names.operand(arg, true)?;
        self.file.names.note_use(&operand, Use::Read);
        Ok(operand)
    }

    /// Rejects two uniforms, and two different inputs: the hardware can't read them in one
    /// instruction.
    fn check_sources(&self, src: &[Src], seen: &[Operand<'s>]) -> Parse<()> {
        let mut uniforms = 0;
        let mut input = None;
        for (s, o) in src.iter().zip(seen) {
            uniforms += !s.reg.is_narrow() as u32;
            if uniforms > 1 {
                return fault(o.span, AsmErrorKind::TwoUniforms);
            }
            if let SrcFile::Input(n) = s.reg.file()
                && input.replace(n).is_some_and(|m| m != n)
                && !self.file.names.raw
            {
                return fault(o.span, AsmErrorKind::TwoInputs);
            }
        }
        Ok(())
    }

    /// Rejects an operand that is too wide for the encoding, at the operand's position.
    fn narrow(&self, inst: &Inst, seen: &[Operand<'s>]) -> Parse<()> {
        match inst.encode(0) {
            Err(EncodeError::NarrowUniform(n) | EncodeError::NarrowIndex(n)) => {
                let span = seen[usize::from(n) - 1].span;
                fault(span, AsmErrorKind::NarrowUniform { operand: clip(span.text), source: n })
            }
            _ => Ok(()),
        }
    }

    fn compare(&mut self, mut args: Args<'s>, at: Option<u32>, head: Span<'s>) -> Parse<()> {
        let a = self.source(&mut args)?;
        let mut ops = [CmpOp::Eq; 2];
        for op in &mut ops {
            let word = args.next("a comparison")?;
            *op = match (0..8).map(CmpOp::new).find(|op| word.is(op.mnemonic())) {
                Some(op) => op,
                None => return fault(word, AsmErrorKind::UnknownComparison(clip(word.text))),
            };
        }
        let b = self.source(&mut args)?;
        args.done()?;
        let src = [a.src()?, b.src()?];
        if !src[0].reg.is_narrow() && !src[1].reg.is_narrow() {
            return fault(b.span, AsmErrorKind::TwoUniforms);
        }
        if let [SrcFile::Input(a), SrcFile::Input(n)] = src.map(|s| s.reg.file())
            && a != n
            && !self.file.names.raw
        {
            // picasso does not check this.
            self.warn(b.span, WarningKind::TwoInputs);
        }
        let inst = Inst::Cmp { ops, src };
        self.narrow(&inst, &[a, b])?;
        self.operation(inst, at, head)
    }

    /// Emits an instruction with operands.
    fn operation(&mut self, inst: Inst, at: Option<u32>, head: Span<'s>) -> Parse<()> {
        let slot = match at {
            Some(n) => self.opdescs.place_at(&inst, n),
            None => self.opdescs.place(&inst),
        };
        let slot = slot.map_err(|kind| Fault::new(head, kind))?;
        if let Some(pair) = slot.swap {
            self.swap_opdescs(pair);
        }
        let word = inst.encode(slot.index).expect("operands were checked against the format");
        self.emit(word, false, head).map(|_| ())
    }

    fn setemit(&mut self, mut args: Args<'s>, head: Span<'s>) -> Parse<()> {
        let arg = args.next("a vertex slot")?;
        let slot = self.literal(arg, "vertex slot", 3)?;
        let mut inst = Setemit { vertex: slot, ..Setemit::default() };
        if let Some(flags) = args.maybe() {
            for word in flags.words() {
                if word.is("prim") || word.is("primitive") {
                    inst.primitive = true;
                } else if word.is("inv") || word.is("invert") {
                    inst.winding = true;
                } else {
                    return expected("prim or inv", word);
                }
            }
        }
        args.done()?;
        if !self.file.gsh_seen {
            self.implied_geometry();
        }
        let word = Inst::Setemit(inst).encode(0).expect("every setemit has an encoding");
        self.emit(word, false, head).map(|_| ())
    }

    /// A boolean register, after `!` where the instruction can test for false.
    fn boolean(&mut self, arg: Span<'s>, invertible: bool) -> Parse<(u8, bool)> {
        let (arg, value) = match arg.strip('!') {
            Some(_) if !invertible => return fault(arg, AsmErrorKind::InvertNotAllowed),
            Some(rest) => (rest, false),
            None => (arg, true),
        };
        Ok((self.file.names.operand(arg, false)?.number_in(BOOL, 16, "a b register")?, value))
    }

    /// The test of a transfer: nothing for `call`, a condition, or a boolean.
    fn test(&mut self, op: Opcode, args: &mut Args<'s>) -> Parse<Option<Test>> {
        Ok(match op {
            Opcode::Call => None,
            Opcode::Callu | Opcode::Ifu | Opcode::Jmpu => {
                let (id, value) = self.boolean(args.next("a b register")?, op == Opcode::Jmpu)?;
                Some(Test::Bool { id, value })
            }
            _ => Some(Test::Flags(condition(args.next("a condition")?)?)),
        })
    }

    /// Emits a transfer with zero addresses, which a fixup or call sets.
    fn bare_transfer(&mut self, op: Opcode, test: Option<Test>, head: Span<'s>) -> Parse<usize> {
        let always = Cond { op: CondOp::Or, ref_x: false, ref_y: false };
        let or_flags = test.unwrap_or(Test::Flags(always));
        let inst = match op {
            Opcode::Call | Opcode::Callc | Opcode::Callu => Inst::Call { test, target: 0, len: 0 },
            Opcode::Ifc | Opcode::Ifu => Inst::If { test: or_flags, target: 0, len: 0 },
            _ => Inst::Jump { test: or_flags, target: 0 },
        };
        let word = inst.encode(0).expect("the test fits the instruction");
        self.emit(word, false, head)
    }

    /// The operand and word of `for`. As in picasso, its register number is not limited to i0-i3
    /// (quirk Q12).
    fn bare_loop(&mut self, args: &mut Args<'s>, head: Span<'s>) -> Parse<usize> {
        let arg = args.next("an i register")?;
        let id = self.file.names.operand(arg, false)?.number_in(INT, 8, "an i register")?;
        if id > 3 {
            self.warn(arg, WarningKind::NoSuchInteger(clip(arg.text)));
        }
        self.emit((Opcode::Loop as u32) << 26 | u32::from(id) << 22, false, head)
    }

    fn transfer(&mut self, row: &Row, mut args: Args<'s>, head: Span<'s>) -> Parse<()> {
        match row.opcode {
            Opcode::Loop => {
                let at = self.bare_loop(&mut args, head)?;
                args.done()?;
                self.open(Block::For { at }, head)
            }
            Opcode::Breakc => {
                let cond = condition(args.next("a condition")?)?;
                args.done()?;
                let word = Inst::Breakc { cond }.encode(0).expect("every condition has an encoding");
                self.emit(word, false, head).map(|_| ())
            }
            op => {
                let test = self.test(op, &mut args)?;
                let target = match op {
                    Opcode::Ifc | Opcode::Ifu => None,
                    Opcode::Jmpc | Opcode::Jmpu => Some(args.name("a label")?),
                    _ => Some(args.name("a procedure")?),
                };
                args.done()?;
                if let Some(name) = target {
                    self.name(name)?;
                }
                let at = self.bare_transfer(op, test, head)?;
                match target {
                    None => return self.open(Block::If { at, else_at: None }, head),
                    Some(label) if matches!(op, Opcode::Jmpc | Opcode::Jmpu) => {
                        self.fix_later(at, Field::Target, label);
                    }
                    Some(name) => self.call_later(at, name),
                }
                Ok(())
            }
        }
    }

    /// The `r...` forms: address and length are expressions.
    fn raw_transfer(&mut self, row: &Row, mut args: Args<'s>, head: Span<'s>) -> Parse<()> {
        let at = match row.opcode {
            Opcode::Loop => self.bare_loop(&mut args, head)?,
            op => {
                let test = self.test(op, &mut args)?;
                self.bare_transfer(op, test, head)?
            }
        };
        let target = args.next("an address")?;
        self.fix_later(at, Field::Target, target);
        if !matches!(row.opcode, Opcode::Loop | Opcode::Jmpc | Opcode::Jmpu) {
            let len = args.next("a length in words")?;
            self.fix_later(at, Field::Len, len);
        }
        args.done()
    }
}

/// The row of a mnemonic, and whether it is an `r...` form.
fn find_row(name: Span<'_>, exact: bool) -> Option<(&'static Row, bool)> {
    if let Some(row) = ROWS.iter().find(|r| name.is(r.mnemonic)) {
        let has_forms = matches!(row.format, Format::F1i | Format::F5 | Format::F5i)
            || matches!(row.opcode, Opcode::Dph | Opcode::Dst | Opcode::Sge | Opcode::Slt);
        if !exact || has_forms {
            return Some((row, false));
        }
    } else if !exact && let Some(rest) = name.text.strip_prefix(['r', 'R']) {
        let rest = if rest.eq_ignore_ascii_case("loop") { "for" } else { rest };
        let transfer = ROWS.iter().find(|r| {
            matches!(r.format, Format::F2 | Format::F3)
                && r.opcode != Opcode::Breakc
                && rest.eq_ignore_ascii_case(r.mnemonic)
        });
        if let Some(row) = transfer {
            return Some((row, true));
        }
    }
    None
}

/// `mova`'s target: `a0.x`, `a0`, `a0.y`, `a1`, `a0.xy`, `a01`; and, beyond picasso, any mask after
/// `a0.`.
fn address_mask(span: Span<'_>) -> Parse<WriteMask> {
    if span.is("a0") {
        return Ok(WriteMask::new(8));
    }
    if span.is("a1") {
        return Ok(WriteMask::new(4));
    }
    if span.is("a01") {
        return Ok(WriteMask::new(12));
    }
    let components = match span.cut('.') {
        Some((base, components)) if base.is("a0") && !components.is_empty() => components,
        _ => return expected("a0.x, a0.y or a0.xy", span),
    };
    if components.text == "_" {
        return Ok(WriteMask::NONE);
    }
    let chosen = parse_components(components)?;
    Ok(chosen.iter().fold(WriteMask::NONE, |m, &l| m.with(usize::from(l))))
}
