//! Runs in point mode, which form batches: enough of them for native code to compile groups.

use super::*;
use crate::kernel::KernelStats;
use crate::state::Exit;
use crate::testing::miri_or;

/// Vertices of a draw. Under Miri, which has no native code, a few do.
const VERTICES: usize = miri_or(40, 6000);

/// One vector each, in `attributes` of a run.
fn list(source: &str, attributes: u32) -> List {
    let mut list = plain();
    list.geometry(0, 0, 1).shader(GSH, source, attributes, 0b11).topology(Topology::Geometry);
    list
}

fn vertices() -> Vec<f32> {
    (0..VERTICES).map(|n| n as f32).collect()
}

/// The counters of the geometry program.
fn stats(console: &Console) -> KernelStats {
    let state = console.gpu.state();
    let program = Program::from_words(&state.geometry.code, &state.geometry.opdescs).expect("of a unit");
    console.gpu.engine().shader(&program, state.registers.entry(crate::isa::Stage::Geometry)).stats()
}

fn expect_groups(console: &Console) {
    assert!(cfg!(not(all(feature = "jit", not(miri)))) || stats(console).groups > 100, "{:?}", stats(console));
}

#[test]
fn permuted_attributes_of_many_runs() {
    let mut list = list(TRIANGLE, 3);
    list.write(GSH + offset::ATTRIBUTES_PERMUTATION_LOW, 0x012).arrays();
    let mut console = play(&list, &vertices(), &[]);
    expect_groups(&console);
    let xs = console.xs();
    assert_eq!(xs.len(), VERTICES / 3);
    for (n, x) in (0..).map(|n| 3.0 * n as f32).zip(xs) {
        assert_eq!(x, [n + 2.0, n + 1.0, n]);
    }
    assert_eq!(console.memory.report.geometry_runs, VERTICES as u64 / 3);
}

#[test]
fn the_first_run_alone_reads_b15_clear() {
    // A position of 1 or 2.
    let source = ".gsh point c0\nsetemit 0, prim\nmov o1, v0\nifu b15\nmov o0, c1\n.else\nmov o0, c0\n.end\nemit";
    let mut list = list(source, 1);
    list.float24(GSH, 0, &[[1.0; 4], [2.0; 4]]).outmap(1).topology(Topology::List).arrays();
    let mut console = play(&list, &vertices(), &[]);
    expect_groups(&console);
    let xs = console.xs();
    assert_eq!(xs.iter().map(|xs| xs[0]).filter(|x| *x == 1.0).count(), 1, "{:?}", &xs[..4]);
    assert_eq!(xs[0][0], 1.0);
}

#[test]
fn a_run_without_fuel_ends_the_draw_and_its_vectors_stay() {
    // The run whose position exceeds c0 does not end.
    let source =
        ".gsh point c0\nsetemit 0, prim\nmov o0, v0\nmov o1, v1\nemit\ncmp c0, lt, lt, v0\nagain:\njmpc cmp.x, again";
    // Fewer vertices than the draw's limit, which weighs a loop without end.
    let vertices = || vertices().into_iter().take(1000);
    let limit = vertices().len() as f32 - 31.0;
    let mut list = list(source, 2);
    list.float24(GSH, 0, &[[limit; 4]]).arrays();
    let consoles = [BackendChoice::NativeRequired, BackendChoice::Oracle].map(|backend| {
        let mut console = Console::new(backend);
        console.memory.vertices = vertices().map(vertex).collect();
        console.execute(&list);
        console
    });
    let runs = (limit as u64 + 1).div_ceil(2) + 1;
    for console in &consoles {
        let report = &console.memory.report;
        assert_eq!((report.geometry_runs, report.geometry_exit), (runs, Exit::Fuel));
        let first = 2.0 * (runs - 1) as f32;
        let vectors = console.gpu.state().geometry_input.vectors;
        assert_eq!([vectors[0][0], vectors[1][0]], [first, first + 1.0], "those of the run that ended the draw");
    }
    let [native, oracle] = consoles.map(|console| {
        let state = console.gpu.state();
        let input = &state.geometry_input;
        (console.memory.triangles.clone(), input.vectors, input.count, state.geometry.unit.slots, state.geometry.unit.o)
    });
    assert_eq!(native, oracle);
}
