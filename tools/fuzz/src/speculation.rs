//! [`Writer`]'s steps that make speculation fail: a product of zero and infinity, in some vertices,
//! before an instruction that swallows NaN.
//!
//! Batch code guards each such instruction in its own place: in a divergent region, before a
//! branch, in a loop, at the end. Random operands hardly ever reach one guard and no other.

use super::generate::{FEW, Writer};
use picajit::isa::{Alu, CmpOp, DstReg, Inst, Opcode, Src, SrcReg, Swizzle, WriteMask};

/// The temporary that is zero in some vertices.
const ZERO: u8 = 10;
/// The temporary that holds the product.
const PRODUCT: u8 = 11;
/// The temporaries that these steps write besides the usual few.
pub(super) const SCRATCH: [u8; 2] = [ZERO, PRODUCT];

/// The descriptor of plain operands: all components, no swizzle, no sign.
const PLAIN: u32 = {
    let identity = Swizzle::IDENTITY.0 as u32;
    WriteMask::ALL.bits() as u32 | identity << 5 | identity << 14 | identity << 23
};

impl Writer<'_, '_> {
    /// Reserves descriptor 0 for plain operands. For the beginning of a program.
    pub(super) fn begin_speculation(&mut self) {
        self.opdescs.push(PLAIN);
    }

    /// CMP of a small uniform and an input: flags that often differ between vertices.
    pub(super) fn divergent_flags(&mut self) {
        let small = SrcReg::uniform(self.choices.below(4) as u8);
        let input = SrcReg::input(self.choices.below(u32::from(FEW)) as u8);
        let ops = [(); 2].map(|()| CmpOp::new(self.choices.below(6) as u8));
        self.plain_inst(&Inst::Cmp { ops, src: [small, input].map(Src::plain) });
    }

    /// `dst = op src`, all components of plain operands.
    fn plain(&mut self, op: Opcode, dst: DstReg, src: &[SrcReg]) {
        let mut sources = [Alu::NO_SRC; 3];
        sources.iter_mut().zip(src).for_each(|(to, from)| *to = Src::plain(*from));
        self.plain_inst(&Inst::Alu(Alu { op, dst, mask: WriteMask::ALL, src: sources }));
    }

    fn plain_inst(&mut self, inst: &Inst) {
        self.code.push(inst.encode(0).expect("plain operands fit their fields"));
    }

    /// A product that is 0 * infinity in some vertices, and an instruction that swallows NaN.
    pub(super) fn speculation(&mut self) {
        let few = |writer: &mut Self| writer.choices.below(u32::from(FEW)) as u8;
        let product = if self.choices.percent(60) { PRODUCT } else { few(self) };
        let [zero, to] = [ZERO, product].map(DstReg::temp);
        let input = SrcReg::input(few(self));
        let small = SrcReg::uniform(self.choices.below(4) as u8);
        // Infinite where an input is 0, which few are; or 0 in about half of the vertices.
        match self.choices.percent(85) {
            true => {
                self.plain(Opcode::Rcp, zero, &[input]);
                self.plain(Opcode::Mul, to, &[input, SrcReg::temp(ZERO)]);
            }
            false => {
                let op = self.choices.pick(&[Opcode::Slt, Opcode::Sge]);
                self.plain(op, zero, &[small, input]);
                let op = self.choices.pick(&[Opcode::Mul, Opcode::Mul, Opcode::Dp3, Opcode::Dp4, Opcode::Dph]);
                self.plain(op, to, &[SrcReg::uniform(5), SrcReg::temp(ZERO)]);
            }
        }
        let read = SrcReg::temp(product);
        match self.choices.below(5) {
            // Infinity - infinity, where the product is none.
            0 => self.plain(Opcode::Add, to, &[SrcReg::uniform(6), read]),
            1..=3 => self.plain(Opcode::Add, to, &[small, read]),
            _ => {}
        }
        let other = SrcReg::temp(few(self));
        let operands = if self.choices.percent(50) { [read, other] } else { [other, read] };
        let n = few(self);
        let result = if self.choices.percent(70) { DstReg::temp(n) } else { DstReg::output(n) };
        match self.choices.below(8) {
            0 => {
                let ops = [(); 2].map(|()| CmpOp::new(self.choices.below(6) as u8));
                self.plain_inst(&Inst::Cmp { ops, src: operands.map(Src::plain) });
            }
            1 => self.plain_inst(&Inst::Mova { mask: WriteMask::ALL, src: Src::plain(read) }),
            2 => self.plain(Opcode::Litp, result, &[read]),
            n => {
                let op = [Opcode::Max, Opcode::Min, Opcode::Sge, Opcode::Slt, Opcode::Max][n as usize - 3];
                self.plain(op, result, &operands);
            }
        }
        // Without a further reader, no other guard tests the product.
        if self.choices.percent(90) {
            self.plain(Opcode::Mov, to, &[small]);
        }
    }
}
