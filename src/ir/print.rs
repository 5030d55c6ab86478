//! [`Func`] and [`Cfg`] as text, for dumps and snapshots. No parser reads the text.

use super::cfg::{self, Cfg, Step};
use super::{Block, BranchTest, Edge, Func, Inst, Mem, Node, ScalarUse, Terminator, Use, Value};
use crate::isa::{self, CondOp};
use std::fmt::{self, Display, Formatter};

const XYZW: [char; 4] = ['x', 'y', 'z', 'w'];

struct In<'a, T>(&'a Func, T);

impl Display for In<'_, Value> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.node(self.1) {
            Node::Const(bits) => {
                let [x, y, z, w] = bits.map(f32::from_bits);
                write!(f, "({x:?}, {y:?}, {z:?}, {w:?})")
            }
            Node::Int(n) => write!(f, "{n}"),
            Node::Flag(b) => write!(f, "{b}"),
            Node::Input(n) => write!(f, "v{n}"),
            Node::Uniform(n) => write!(f, "c{n}"),
            Node::IntUniform { id, component } => write!(f, "i{id}.{}", XYZW[usize::from(*component)]),
            _ => write!(f, "%{}", self.1.0),
        }
    }
}

impl Display for In<'_, &Use> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let u = self.1;
        write!(f, "{}{}", if u.negate { "-" } else { "" }, In(self.0, u.value))?;
        if u.swizzle == isa::Swizzle::IDENTITY { Ok(()) } else { write!(f, ".{}", u.swizzle) }
    }
}

impl Display for In<'_, &ScalarUse> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ScalarUse { value, component, negate } = *self.1;
        write!(f, "{}{}.{}", if negate { "-" } else { "" }, In(self.0, value), XYZW[usize::from(component)])
    }
}

/// Without the bank of an output.
impl Display for Mem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Mem::Temp(n) => write!(f, "r{n}"),
            Mem::Out { n, .. } => write!(f, "o{n}"),
            Mem::Address(n) => write!(f, "a0.{}", XYZW[usize::from(*n)]),
            Mem::LoopCounter => f.write_str("aL"),
            Mem::Flag(n) => write!(f, "cmp.{}", XYZW[usize::from(*n)]),
            Mem::Bank => f.write_str("bank"),
        }
    }
}

impl Display for In<'_, Mem> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.1.fmt(f)?;
        if let Mem::Out { bank, .. } = self.1 { write!(f, "[{}]", In(self.0, bank)) } else { Ok(()) }
    }
}

impl Display for In<'_, &Node> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let func = self.0;
        match self.1 {
            Node::Load(mem) => write!(f, "load {}", In(func, *mem)),
            Node::Offset(v) => write!(f, "offset {}", In(func, *v)),
            Node::Relative { base, offset } => write!(f, "relative c{base} + {}", In(func, *offset)),
            Node::Alu { op, src } => {
                f.write_str(op.opcode().row().mnemonic)?;
                src[..op.sources()]
                    .iter()
                    .enumerate()
                    .try_for_each(|(n, s)| write!(f, "{} {}", if n == 0 { "" } else { "," }, In(func, s)))
            }
            Node::Scalar { op, src } => write!(f, "{} {}", op.opcode().row().mnemonic, In(func, src)),
            Node::Merge { mask, old, new } => {
                write!(f, "merge.{mask} {}, {}", In(func, *old), In(func, *new))
            }
            Node::ToAddress(l) => write!(f, "address {}", In(func, l)),
            Node::Compare { op, a, b } => write!(f, "cmp.{} {}, {}", op.mnemonic(), In(func, a), In(func, b)),
            Node::Add(a, b) => write!(f, "add {}, {}", In(func, *a), In(func, *b)),
            Node::Flip(v) => write!(f, "flip {}", In(func, *v)),
            Node::Param(_)
            | Node::Const(_)
            | Node::Int(_)
            | Node::Flag(_)
            | Node::Input(_)
            | Node::Uniform(_)
            | Node::IntUniform { .. } => Ok(()),
        }
    }
}

impl Display for In<'_, &Edge> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.1.to)?;
        list(f, self.0, &self.1.args)
    }
}

fn list(f: &mut Formatter<'_>, func: &Func, values: &[Value]) -> fmt::Result {
    if values.is_empty() {
        return Ok(());
    }
    for (n, v) in values.iter().enumerate() {
        write!(f, "{}{}", if n == 0 { "(" } else { ", " }, In(func, *v))?;
    }
    f.write_str(")")
}

impl Display for In<'_, &BranchTest> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            BranchTest::Flags { cond, x, y } => {
                let (nx, ny) = (if cond.ref_x { "" } else { "!" }, if cond.ref_y { "" } else { "!" });
                let (x, y) = (In(self.0, *x), In(self.0, *y));
                match cond.op {
                    CondOp::Or => write!(f, "{nx}{x} || {ny}{y}"),
                    CondOp::And => write!(f, "{nx}{x} && {ny}{y}"),
                    CondOp::X => write!(f, "{nx}{x}"),
                    CondOp::Y => write!(f, "{ny}{y}"),
                }
            }
            BranchTest::Bool { id, value } => write!(f, "{}b{id}", if *value { "" } else { "!" }),
            BranchTest::NonZero(v) => write!(f, "{} != 0", In(self.0, *v)),
            BranchTest::AtLeast(v, least) => write!(f, "{} >= {least}", In(self.0, *v)),
        }
    }
}

impl Display for In<'_, &Block> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (func, block) = (self.0, self.1);
        for (pc, inst) in &block.insts {
            write!(f, "    {pc:>4}  ")?;
            match inst {
                Inst::Def(v) => writeln!(f, "%{} = {}", v.0, In(func, func.node(*v)))?,
                Inst::Store(mem, v) => writeln!(f, "store {}, {}", In(func, *mem), In(func, *v))?,
                Inst::Emit => writeln!(f, "emit")?,
                Inst::Setemit(s) => {
                    writeln!(f, "setemit {}, primitive {}, winding {}", s.vertex, s.primitive, s.winding)?;
                }
            }
        }
        f.write_str("          ")?;
        match &block.term {
            Terminator::Exit(exit) => writeln!(f, "exit {exit:?}"),
            Terminator::Goto(edge) => writeln!(f, "goto {}", In(func, edge)),
            Terminator::Branch { test, yes, no } => {
                writeln!(f, "if {} goto {} else {}", In(func, test), In(func, yes), In(func, no))
            }
        }
    }
}

impl Display for Func {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} entry at {}, {:?} form", self.entry.stage, self.entry.pc, self.form)?;
        for (id, block) in self.blocks.iter().enumerate() {
            write!(f, "b{id}")?;
            list(f, self, &block.params)?;
            writeln!(f, ":")?;
            write!(f, "{}", In(self, block))?;
        }
        Ok(())
    }
}

impl Display for Cfg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} entry at {}: {} states, {} words, {} blocks",
            self.entry.stage,
            self.entry.pc,
            self.states,
            self.reachable.len(),
            self.blocks.len()
        )?;
        let edge = |e: &cfg::Edge| format!("b{}{}", e.to, if e.backward { " (back)" } else { "" });
        for (id, block) in self.blocks.iter().enumerate() {
            write!(f, "b{id}: pc {}", block.pc)?;
            for c in block.scopes.calls.iter() {
                write!(f, ", call ends {} returns {}", c.end, c.ret)?;
            }
            for i in block.scopes.ifs.iter() {
                write!(f, ", if ends {} continues {}", i.end, i.cont)?;
            }
            for l in block.scopes.loops.iter() {
                write!(f, ", loop {}..{}", l.start, l.end)?;
            }
            writeln!(f)?;
            for step in &block.steps {
                match step {
                    Step::Inst(pc, inst) => writeln!(f, "    {pc:>4}  {}", plain(inst))?,
                    Step::LoopBegin { pc, int, slot, .. } => writeln!(f, "    {pc:>4}  loop i{int} (slot {slot})")?,
                }
            }
            match &block.term {
                cfg::Terminator::Exit(exit) => writeln!(f, "          exit {exit:?}")?,
                cfg::Terminator::Goto(e) => writeln!(f, "          goto {}", edge(e))?,
                cfg::Terminator::Branch { test: t, yes, no } => {
                    writeln!(f, "          if {} goto {} else {}", test(t), edge(yes), edge(no))?;
                }
                cfg::Terminator::LoopEnd { slot, again, exit, .. } => {
                    writeln!(f, "          loop end (slot {slot}): again {} or {}", edge(again), edge(exit))?;
                }
                cfg::Terminator::LoopBreak { slot, exit, .. } => {
                    writeln!(f, "          break (slot {slot}) to {}", edge(exit))?;
                }
            }
        }
        Ok(())
    }
}

/// An instruction that computes. The disassembler is a layer above and can't be used here.
fn plain(inst: &isa::Inst) -> String {
    let source = |s: &isa::Src| {
        let index = match s.relative() {
            None => "",
            Some((_, isa::Index::A0x)) => "[a0.x]",
            Some((_, isa::Index::A0y)) => "[a0.y]",
            Some(_) => "[aL]",
        };
        format!("{}{}{index}.{}", if s.negate { "-" } else { "" }, s.reg, s.swizzle)
    };
    match inst {
        isa::Inst::Alu(alu) => {
            let sources: Vec<String> = alu.sources().iter().map(source).collect();
            format!("{} {}.{}, {}", alu.op.row().mnemonic, alu.dst, alu.mask, sources.join(", "))
        }
        isa::Inst::Mova { mask, src } => format!("mova a0.{mask}, {}", source(src)),
        isa::Inst::Cmp { ops: [x, y], src: [a, b] } => {
            format!("cmp {}, {}, {}, {}", source(a), x.mnemonic(), y.mnemonic(), source(b))
        }
        isa::Inst::Emit => "emit".into(),
        isa::Inst::Setemit(s) => {
            format!("setemit {}, primitive {}, winding {}", s.vertex, s.primitive, s.winding)
        }
        steering => format!("{steering:?}"),
    }
}

/// A condition of a graph's terminator.
pub fn test(t: &isa::Test) -> String {
    match t {
        isa::Test::Bool { id, value } => format!("{}b{id}", if *value { "" } else { "!" }),
        isa::Test::Flags(cond) => {
            let (x, y) = (if cond.ref_x { "cmp.x" } else { "!cmp.x" }, if cond.ref_y { "cmp.y" } else { "!cmp.y" });
            match cond.op {
                CondOp::Or => format!("{x} || {y}"),
                CondOp::And => format!("{x} && {y}"),
                CondOp::X => x.into(),
                CondOp::Y => y.into(),
            }
        }
    }
}
