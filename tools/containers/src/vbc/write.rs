//! [`Vbc`] -> bytes, and the repair of the known compiler's defects.

use super::{Base, Dialect, MOST_WORDS, SubpassInput, Vbc, spirv};
use crate::cursor::FormatError;

impl Vbc {
    /// The file's bytes in its dialect. A parsed value gives the bytes it was parsed from, with
    /// stage sizes modulo 65,536 and dumped subpass records ([`Vbc::repaired`]).
    ///
    /// Numbers that the dialect can't hold are cut off; [`Vbc::converted`] rejects them.
    pub fn write(&self) -> Vec<u8> {
        let dialect = self.dialect;
        let mut out = b"VBC\x01".to_vec();
        if dialect != Dialect::A0 {
            out.push(self.shader_type);
        }
        self.modules.iter().for_each(|m| out.extend(((m.len() / 4) as u16).to_le_bytes()));
        self.tables.iter().for_each(|t| out.extend(t.to_le_bytes()));
        let count = |out: &mut Vec<u8>, n: usize| match dialect {
            Dialect::A0 => out.push(n as u8),
            _ => out.extend((n as u32).to_le_bytes()),
        };
        for list in [&self.inputs, &self.outputs] {
            count(&mut out, list.len());
            for row in list {
                out.extend([row.location, row.ty.base, row.ty.rows, row.ty.columns, row.ty.array]);
                out.extend(row.reserved);
            }
        }
        count(&mut out, self.bindings.len());
        for row in &self.bindings {
            out.extend([row.slot, row.base]);
            out.extend(row.stages.to_le_bytes());
            out.extend(row.detail);
        }
        self.write_uniform(&mut out);
        out.extend((self.subpass_inputs.len() as u32).to_le_bytes());
        for row in &self.subpass_inputs {
            match row {
                SubpassInput::Plain { texel, count, reserved } => {
                    out.extend([*texel, *count]);
                    out.extend(reserved.to_le_bytes());
                }
                SubpassInput::Dumped(bytes) => out.extend(bytes),
            }
        }
        self.modules.iter().for_each(|m| out.extend(m));
        out
    }

    fn write_uniform(&self, out: &mut Vec<u8>) {
        let size = self.uniform.as_ref().map_or(0, |u| u.size);
        match self.dialect {
            Dialect::C => out.extend((size as u16).to_le_bytes()),
            _ => out.extend(size.to_le_bytes()),
        }
        let Some(uniform) = &self.uniform else { return };
        out.extend(uniform.stages.to_le_bytes());
        out.extend((uniform.members.len() as u32).to_le_bytes());
        for member in &uniform.members {
            let ty = member.ty.unwrap_or_default();
            let ty = [ty.base, ty.rows, ty.columns, ty.array];
            if self.dialect == Dialect::C {
                out.push(member.name.len() as u8);
                out.extend(&member.name);
                out.extend((member.offset as u16).to_le_bytes());
                out.extend(ty);
            } else {
                out.extend(member.offset.to_le_bytes());
                if self.dialect == Dialect::A2 {
                    out.extend(ty);
                }
                out.extend((member.name.len() as u32).to_le_bytes());
                out.extend(&member.name);
            }
        }
    }

    /// The same shader without the known compiler's defects: subpass records come from the SPIR-V,
    /// reserved bytes are zero.
    ///
    /// Fails if a stage has more words than its size can hold, or if no module has a subpass input.
    pub fn repaired(mut self) -> Result<Vbc, FormatError> {
        for (n, (module, at)) in self.modules.iter().zip(self.module_offsets()).enumerate() {
            if module.len() / 4 > MOST_WORDS {
                let message =
                    format!("stage `{}` has {} words, its size holds {MOST_WORDS}", super::STAGES[n], module.len() / 4);
                return Err(FormatError::new(at, message));
            }
        }
        if self.subpass_inputs.iter().any(|s| matches!(s, SubpassInput::Dumped(_))) {
            let fragment =
                spirv::Module::parse(&self.modules[4]).map_err(|m| FormatError::new(self.module_offsets()[4], m))?;
            let dialect = self.dialect;
            for (n, input) in
                self.subpass_inputs.iter_mut().enumerate().filter(|(_, s)| matches!(s, SubpassInput::Dumped(_)))
            {
                // Only variables that the optimiser leaves are there.
                let base = fragment.subpass_input(n as u32).ok_or_else(|| {
                    let message =
                        format!("the type of subpass input {n} is not known: the fragment module does not use it");
                    FormatError::new(0, message)
                })?;
                *input = SubpassInput::Plain { texel: texel_number(dialect, base), count: 4, reserved: 0 };
            }
        }
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(|row| row.reserved = [0; 3]);
        for input in &mut self.subpass_inputs {
            if let SubpassInput::Plain { reserved, .. } = input {
                *reserved = 0;
            }
        }
        Ok(self)
    }
}

/// The texel type of a numeric base type.
fn texel_number(dialect: Dialect, base: Base) -> u8 {
    match dialect {
        Dialect::C => base.number(dialect) - Base::Signed.number(dialect),
        _ => base.number(dialect),
    }
}
