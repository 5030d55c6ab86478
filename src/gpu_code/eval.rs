//! Runs [`Code`] on the CPU, as a driver that computes exactly: for tests of the lowering where there is no driver.

use super::code::{Binary, Code, Id, Op, Stmt, Unary};
use crate::state::{Registers, Uniforms};

/// Steps after which a run has no result: no code needs as many.
const MOST_STEPS: u64 = 1 << 26;

/// Runs the code of an entry on inputs `v`; outputs that it does not write stay. `None` if it does not end.
pub(crate) fn run(code: &Code, uniforms: &Uniforms, v: &Registers, o: &mut Registers) -> Option<()> {
    let mut run = Run {
        uniforms,
        v,
        values: code.ops.iter().map(|op| if let Op::Const(_, bits) = op { *bits } else { [0xDEAD_BEEF; 4] }).collect(),
        vars: vec![[0xDEAD_BEEF; 4]; code.vars.len()],
    };
    let ends = Ends::new(&code.body);
    let mut at = 0;
    let mut steps = 0u64;
    while at < code.body.len() {
        steps += 1;
        if steps > MOST_STEPS {
            return None;
        }
        let mut next = at + 1;
        match code.body[at] {
            Stmt::Def(id) => run.values[id.0 as usize] = run.eval(code.op(id)),
            Stmt::Set(var, id) => run.vars[var.0 as usize] = run.get(id),
            Stmt::Output(n, id) => o[usize::from(n)] = run.get(id).map(f32::from_bits),
            Stmt::If(flag) => {
                if run.get(flag)[0] == 0 {
                    next = ends.other[at] + 1;
                }
            }
            // Reached from the first side.
            Stmt::Else => next = ends.other[at],
            Stmt::EndIf | Stmt::Loop => {}
            Stmt::EndLoop | Stmt::Continue => next = ends.loop_of[at],
            Stmt::Break => next = ends.other[ends.loop_of[at]] + 1,
            Stmt::Return => return Some(()),
        }
        at = next;
    }
    Some(())
}

/// Where statements belong.
struct Ends {
    /// Of an `if` its `else` or end, of an `else` its end, of a loop its end.
    other: Vec<usize>,
    /// The innermost loop's first statement.
    loop_of: Vec<usize>,
}

impl Ends {
    fn new(body: &[Stmt]) -> Ends {
        let (mut other, mut loop_of) = (vec![usize::MAX; body.len()], vec![usize::MAX; body.len()]);
        let (mut open, mut loops) = (Vec::new(), Vec::new());
        for (at, stmt) in body.iter().enumerate() {
            loop_of[at] = loops.last().copied().unwrap_or(usize::MAX);
            match stmt {
                Stmt::If(_) => open.push(at),
                Stmt::Else => {
                    let begin = open.pop().expect("an else has its if");
                    other[begin] = at;
                    open.push(at);
                }
                Stmt::EndIf => other[open.pop().expect("an end has its if")] = at,
                Stmt::Loop => loops.push(at),
                Stmt::EndLoop => other[loops.pop().expect("an end has its loop")] = at,
                _ => {}
            }
        }
        assert!(open.is_empty() && loops.is_empty(), "statements end");
        Ends { other, loop_of }
    }
}

struct Run<'a> {
    uniforms: &'a Uniforms,
    v: &'a Registers,
    values: Vec<[u32; 4]>,
    vars: Vec<[u32; 4]>,
}

impl Run<'_> {
    fn get(&self, id: Id) -> [u32; 4] {
        self.values[id.0 as usize]
    }

    fn eval(&self, op: Op) -> [u32; 4] {
        match op {
            Op::Const(_, bits) => bits,
            Op::Unary(op, a) => self.get(a).map(|a| unary(op, a)),
            Op::Binary(op, a, b) => {
                let (a, b) = (self.get(a), self.get(b));
                std::array::from_fn(|n| binary(op, a[n], b[n]))
            }
            Op::Select(flag, yes, no) => {
                let (flag, yes, no) = (self.get(flag), self.get(yes), self.get(no));
                std::array::from_fn(|n| if flag[n] != 0 { yes[n] } else { no[n] })
            }
            Op::Vector(parts) => parts.map(|part| self.get(part)[0]),
            Op::Component(vector, n) => [self.get(vector)[usize::from(n)]; 4],
            Op::Shuffle(a, b, from) => {
                let all = [self.get(a), self.get(b)].concat();
                from.map(|n| all[usize::from(n)])
            }
            Op::Get(var) => self.vars[var.0 as usize],
            Op::Input(n) => self.v[usize::from(n)].map(f32::to_bits),
            Op::FloatUniform(n) => self.uniforms.c[self.get(n)[0] as usize].map(f32::to_bits),
            Op::IntUniform { id, component } => [self.uniforms.i[usize::from(id)][usize::from(component)].into(); 4],
            Op::BoolUniforms => [self.uniforms.b.into(); 4],
        }
    }
}

fn unary(op: Unary, a: u32) -> u32 {
    let x = f32::from_bits(a);
    match op {
        Unary::Negate => (-x).to_bits(),
        // A product, so that a CPU that replaces subnormal numbers by zeros does so here too.
        Unary::Floor => (x * std::hint::black_box(1.0)).floor().to_bits(),
        Unary::ToBits | Unary::FromBits => a,
        Unary::Truncate => (x as i32).cast_unsigned(),
        Unary::FromSigned => (a.cast_signed() as f32).to_bits(),
        Unary::FromUnsigned => (a as f32).to_bits(),
        Unary::HighestBit => 31u32.wrapping_sub(a.leading_zeros()),
        Unary::Not => u32::from(a == 0),
    }
}

fn binary(op: Binary, a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match op {
        Binary::FloatAdd => (x + y).to_bits(),
        Binary::FloatSub => (x - y).to_bits(),
        Binary::FloatMul => (x * y).to_bits(),
        Binary::FloatEqual => u32::from(x == y),
        Binary::FloatLess => u32::from(x < y),
        Binary::FloatLessEqual => u32::from(x <= y),
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::MulHigh => ((u64::from(a) * u64::from(b)) >> 32) as u32,
        Binary::And | Binary::Both => a & b,
        Binary::Or | Binary::Either => a | b,
        Binary::Xor => a ^ b,
        // Drivers may do anything for 32 and more.
        Binary::ShiftLeft => a.checked_shl(b).unwrap_or(0xDEAD_BEEF),
        Binary::ShiftRight => a.checked_shr(b).unwrap_or(0xDEAD_BEEF),
        Binary::ShiftRightSigned => a.cast_signed().checked_shr(b).map_or(0xDEAD_BEEF, i32::cast_unsigned),
        Binary::Equal => u32::from(a == b),
        Binary::Less => u32::from(a < b),
        Binary::LessSigned => u32::from(a.cast_signed() < b.cast_signed()),
        Binary::Min => a.min(b),
    }
}
