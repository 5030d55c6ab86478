//! [`Vbc`] of dialect A2 <-> dialect C. A record that the target can't express is an error.

use super::{Base, Binding, Dialect, MOST_WORDS, STAGES, SubpassInput, ValueType, Vbc};
use crate::cursor::FormatError;
use crate::finding::quoted;

impl Vbc {
    /// The same shader in another dialect, A2 or C. The modules are unchanged.
    ///
    /// An error names the record that `target` can't express; its offset is 0. Converting back
    /// gives an equal value.
    pub fn converted(&self, target: Dialect) -> Result<Vbc, FormatError> {
        let fail = |what: String| FormatError::new(0, what);
        if ![self.dialect, target].iter().all(|d| matches!(d, Dialect::A2 | Dialect::C)) {
            return Err(fail(format!("dialect {} does not convert to {target}, only A2 and C do", self.dialect)));
        }
        let mut to = self.clone();
        to.dialect = target;
        if self.dialect == target {
            return Ok(to);
        }
        let ty = |ty: ValueType, what: &str| {
            let base = Base::of(self.dialect, ty.base)
                .ok_or_else(|| fail(format!("{what} has the unknown base type {}", ty.base)))?;
            Ok::<_, FormatError>(ValueType { base: base.number(target), ..ty })
        };
        for (list, what) in [(&mut to.inputs, "input"), (&mut to.outputs, "output")] {
            for row in list.iter_mut() {
                row.ty = ty(row.ty, &format!("the {what} at location {}", row.location))?;
            }
        }
        for row in &mut to.bindings {
            *row = binding(*row, self.dialect, target)?;
        }
        if let Some(uniform) = &mut to.uniform {
            if target == Dialect::C && uniform.size > u32::from(u16::MAX) {
                return Err(fail(format!(
                    "the uniform block has {} bytes, dialect C holds {}",
                    uniform.size,
                    u16::MAX
                )));
            }
            for member in &mut uniform.members {
                let what = format!("the member {}", quoted(&member.name));
                if target == Dialect::C && member.offset > u32::from(u16::MAX) {
                    return Err(fail(format!("{what} is at offset {}, dialect C holds {}", member.offset, u16::MAX)));
                }
                if target == Dialect::C && member.name.len() > usize::from(u8::MAX) {
                    return Err(fail(format!("{what} has a name of {} bytes, dialect C holds 255", member.name.len())));
                }
                let from = member.ty.ok_or_else(|| fail(format!("{what} has no type")))?;
                member.ty = Some(ty(from, &what)?);
            }
        }
        for (n, input) in to.subpass_inputs.iter_mut().enumerate() {
            let SubpassInput::Plain { texel, .. } = input else {
                return Err(fail(format!(
                    "subpass input {n} is an object of the compiler's memory: repair the file first"
                )));
            };
            let what = format!("subpass input {n}");
            (*texel, _) = texel_type((*texel, 4), self.dialect, target).ok_or_else(|| inexpressible(&what, target))?;
        }
        for (module, stage) in self.modules.iter().zip(STAGES) {
            if module.len() / 4 > MOST_WORDS {
                let message = format!("stage `{stage}` has {} words, its size holds {MOST_WORDS}", module.len() / 4);
                return Err(fail(message));
            }
        }
        Ok(to)
    }
}

fn inexpressible(what: &str, target: Dialect) -> FormatError {
    FormatError::new(0, format!("{what} has a type that dialect {target} can't express"))
}

fn binding(row: Binding, from: Dialect, target: Dialect) -> Result<Binding, FormatError> {
    let what = format!("the binding at slot {}", row.slot);
    let fail = || inexpressible(&what, target);
    let base = Base::of(from, row.base).ok_or_else(fail)?;
    let to = Binding { base: base.number(target), ..row };
    if base.is_buffer() {
        return Ok(to);
    }
    let [rank, texel, size, count] = row.detail;
    // Dialect A2 has a further rank before those of C.
    let rank = match target {
        Dialect::C => rank.checked_sub(1).filter(|&r| r < 7),
        _ => Some(rank).filter(|&r| r < 7).map(|r| r + 1),
    };
    let (texel, size, count) = if matches!(base, Base::Sampler | Base::RoTexels) {
        // What these give a shader has four components of four bytes. A2 stores zeros.
        let expected = if target == Dialect::C { (0, 0) } else { (4, 4) };
        let stored = if target == Dialect::C { (4, 4) } else { (0, 0) };
        let texel = texel_type((texel, 4), from, target).filter(|_| (size, count) == expected);
        (texel.map(|t| t.0), stored.0, stored.1)
    } else {
        let texel = texel_type((texel, size), from, target);
        (texel.map(|t| t.0), texel.map_or(0, |t| t.1), count)
    };
    Ok(Binding { detail: [rank.ok_or_else(fail)?, texel.ok_or_else(fail)?, size, count], ..to })
}

/// Texel type and component size. A2 has no normalised type: `Float` of one byte is C's `UNorm`.
fn texel_type((texel, size): (u8, u8), from: Dialect, target: Dialect) -> Option<(u8, u8)> {
    const FLOAT: u8 = 2;
    const UNORM: u8 = 3;
    match (from, target) {
        (Dialect::A2, Dialect::C) => match (texel.checked_sub(2)?, size) {
            (FLOAT, 1) => Some((UNORM, 1)),
            (texel, 4) if texel <= FLOAT => Some((texel, 4)),
            _ => None,
        },
        _ => match (texel, size) {
            (UNORM, 1) => Some((FLOAT + 2, 1)),
            (texel, 4) if texel <= FLOAT => Some((texel + 2, 4)),
            _ => None,
        },
    }
}
