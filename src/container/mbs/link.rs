//! Two programs -> whether the vertex program's varyings fit the fragment program's.

use super::{Mbs, MbsStage, Symbol, UNUSED};
use crate::container::finding::{Finding, Findings, quoted};
use std::collections::HashMap;

/// Compares the varyings of the vertex program of one file with those of the fragment program of
/// the other, in either order. Offsets are 0: a finding concerns two files.
///
/// Each used varying of the fragment program needs one of the same name, type and array length.
/// Names that begin with `gl_` are built in and need none.
pub fn link_check(a: &Mbs, b: &Mbs) -> Vec<Finding> {
    let mut findings = Findings::default();
    let find = |stage| a.program(stage).or(b.program(stage));
    let (vertex, fragment) = (find(MbsStage::Vertex), find(MbsStage::Fragment));
    let [Some(vertex), Some(fragment)] = [vertex, fragment] else {
        let missing = if vertex.is_none() { MbsStage::Vertex } else { MbsStage::Fragment };
        findings.error(0, format!("neither file has a {missing} program"));
        return findings.into_vec();
    };
    let written: HashMap<&[u8], &Symbol> =
        vertex.varyings().into_iter().flat_map(|t| t.symbols()).map(|s| (s.name(), s)).collect();
    for wanted in fragment.varyings().into_iter().flat_map(|t| t.symbols()) {
        let name = quoted(wanted.name());
        if wanted.offset == UNUSED || wanted.name().starts_with(b"gl_") {
            continue;
        }
        let Some(given) = written.get(wanted.name()) else {
            findings.error(0, format!("the fragment program reads {name}, and the vertex program has no such varying"));
            continue;
        };
        if given.offset == UNUSED {
            findings.error(0, format!("the fragment program reads {name}, and the vertex program does not write it"));
        }
        if given.type_name() != wanted.type_name() {
            let (given, wanted) = (given.type_name(), wanted.type_name());
            findings.error(0, format!("{name} is {given} in the vertex program, {wanted} in the fragment program"));
        }
        if given.precision != wanted.precision {
            let (given, wanted) = (given.precision_name(), wanted.precision_name());
            let message =
                format!("{name} has {given} precision in the vertex program, {wanted} in the fragment program");
            findings.warning(0, message);
        }
    }
    findings.into_vec()
}
