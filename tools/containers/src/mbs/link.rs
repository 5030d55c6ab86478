//! Two programs -> whether they fit: cores, varyings and uniforms.

use super::{Mbs, MbsProgram, MbsStage, NO_PARENT, Symbol, Table, UNUSED};
use crate::finding::{Finding, Findings, quoted};
use std::collections::HashMap;

/// Structs in structs whose names are compared.
const MOST_DEPTH: usize = 8;
/// Longest name of a uniform that is compared.
const MOST_NAME: usize = 1024;

/// Compares the vertex program of one file with the fragment program of the other, in either order.
/// Offsets are 0: a finding concerns two files.
///
/// Both programs must be for one GPU. Each used varying of the fragment program needs one of the
/// same name, type, array length and invariance. Uniforms of one name must have the same type, array
/// length and precision. Names that begin with `gl_` and those of the compiler's constants need no
/// counterpart.
pub fn link_check(a: &Mbs, b: &Mbs) -> Vec<Finding> {
    let mut findings = Findings::default();
    let find = |stage| a.program(stage).or(b.program(stage));
    let (vertex, fragment) = (find(MbsStage::Vertex), find(MbsStage::Fragment));
    let [Some(vertex), Some(fragment)] = [vertex, fragment] else {
        let missing = if vertex.is_none() { MbsStage::Vertex } else { MbsStage::Fragment };
        findings.error(0, format!("neither file has a {missing} program"));
        return findings.into_vec();
    };
    cores(vertex, fragment, &mut findings);
    varyings(vertex, fragment, &mut findings);
    uniforms(vertex, fragment, &mut findings);
    findings.into_vec()
}

/// The GPU of a program's core: Mali-200 or Mali-400.
fn gpu(program: &MbsProgram) -> Option<&'static str> {
    match (program.stage, program.core) {
        (MbsStage::Fragment, 5) | (MbsStage::Vertex, 2) => Some("Mali-200"),
        (MbsStage::Fragment, 7) | (MbsStage::Vertex, 6) => Some("Mali-400"),
        _ => None,
    }
}

fn cores(vertex: &MbsProgram, fragment: &MbsProgram, findings: &mut Findings) {
    match (gpu(vertex), gpu(fragment)) {
        (Some(a), Some(b)) if a != b => {
            findings.error(0, format!("the vertex program is for {a}, the fragment program for {b}: no GPU runs both"));
        }
        (Some(_), Some(_)) => {}
        (a, _) => {
            let unknown = if a.is_none() { vertex } else { fragment };
            let (stage, core) = (unknown.stage, unknown.core);
            findings.warning(0, format!("the {stage} program is for the unknown core {core}, which is not compared"));
        }
    }
}

fn varyings(vertex: &MbsProgram, fragment: &MbsProgram, findings: &mut Findings) {
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
        same_type(&name, given, wanted, findings);
        if (given.invariant != 0) != (wanted.invariant != 0) {
            let only = if given.invariant != 0 { MbsStage::Vertex } else { MbsStage::Fragment };
            let message = format!("{name} is invariant in the {only} program only: both must declare it or neither");
            findings.error(0, message);
        }
        if given.precision != wanted.precision {
            let (given, wanted) = (given.precision_name(), wanted.precision_name());
            let message = format!(
                "{name} has {given} precision in the vertex program, {wanted} in the fragment program: allowed, and \
                 the fragment program gets rounded values if its precision is lower"
            );
            findings.warning(0, message);
        }
    }
}

fn same_type(name: &str, given: &Symbol, wanted: &Symbol, findings: &mut Findings) -> bool {
    let (given, wanted) = (given.type_name(), wanted.type_name());
    if given != wanted {
        findings.error(0, format!("{name} is {given} in the vertex program, {wanted} in the fragment program"));
    }
    given == wanted
}

/// Both programs share the uniforms of an application by their names.
fn uniforms(vertex: &MbsProgram, fragment: &MbsProgram, findings: &mut Findings) {
    let [given, wanted] = [vertex, fragment].map(|program| program.uniforms().map_or_else(Vec::new, named));
    let given: HashMap<Path<'_>, &Symbol> = given.into_iter().collect();
    for (path, wanted) in wanted {
        let is_own = path[0].starts_with(b"gl_") || path[0].starts_with(b"?");
        let Some(given) = given.get(&path).filter(|_| !is_own) else { continue };
        let name = format!("the uniform {}", quoted(&path.join(&b"."[..])));
        if !same_type(&name, given, wanted, findings) {
            continue;
        }
        if given.precision != wanted.precision {
            let (given, wanted) = (given.precision_name(), wanted.precision_name());
            let message = format!(
                "{name} has {given} precision in the vertex program, {wanted} in the fragment program: one uniform \
                 has one precision"
            );
            findings.error(0, message);
        }
    }
}

/// The name of a symbol after those of the structs around it; never empty.
type Path<'a> = Vec<&'a [u8]>;

/// The symbols of a table with their paths. One with a name longer than any compiler's is left out.
fn named(table: &Table) -> Vec<(Path<'_>, &Symbol)> {
    let symbols: Vec<&Symbol> = table.symbols().collect();
    let path = |n: usize| {
        // Structs come before their members, so a file can't make a circle.
        let parent =
            |n: &usize| Some(usize::from(symbols[*n].parent)).filter(|p| symbols[*n].parent != NO_PARENT && p < n);
        let mut path: Path<'_> =
            std::iter::successors(Some(n), parent).take(MOST_DEPTH).map(|n| symbols[n].name()).collect();
        path.reverse();
        path
    };
    let all = (0..symbols.len()).map(|n| (path(n), symbols[n]));
    all.filter(|(path, _)| path.iter().all(|name| name.len() <= MOST_NAME)).collect()
}
