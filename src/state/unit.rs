//! A shader unit's registers, and the emitter that receives its triangles.

use crate::isa::{REGS, Setemit};

/// A four-component vector, x first.
pub type Vec4 = [f32; 4];
/// The sixteen registers of one file.
pub type Registers = [Vec4; REGS];

/// The registers of one shader unit. They carry over from run to run.
///
/// ```
/// use picajit::Unit;
///
/// let mut unit = Unit::new(); // zeros
/// unit.v[0] = [1.0, 2.0, 3.0, 1.0];
/// unit.o[1][0] = [5.0; 4];
/// unit.bank = 1; // as a geometry program leaves it
/// assert_eq!(unit.outputs()[0], [5.0; 4]);
/// ```
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub struct Unit {
    /// Input attributes `v0-v15`.
    pub v: Registers,
    /// Temporaries `r0-r15`.
    pub r: Registers,
    /// Output registers `o0-o15`, two banks; see [`Unit::bank`].
    pub o: [Registers; 2],
    /// Address registers `a0.x`, `a0.y`.
    pub a0: [i32; 2],
    /// The loop counter `aL`.
    pub al: i32,
    /// The flags `cmp.x`, `cmp.y`.
    pub cmp: [bool; 2],
    /// The bank of `o` that the program writes: 0 or 1 (only bit 0 counts). Every `EMIT` toggles
    /// it, and it survives between runs (measured on hardware, ISA notes section 7).
    pub bank: u8,
    /// The parameters of `EMIT`, from the last `SETEMIT`.
    pub setemit: EmitState,
    /// Vertex slots that `EMIT` fills with a whole output bank; the host's output mask selects and
    /// compacts. Slots 0-2 form triangles.
    pub slots: [Registers; 4],
}

/// The sticky parameters of `EMIT`, in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EmitState {
    /// Vertex slot 0-3 (only bits 0-1 count).
    pub vertex: u8,
    /// Whether `EMIT` sends a triangle.
    pub primitive: bool,
    /// Whether its first two vertices are exchanged.
    pub winding: bool,
}

impl EmitState {
    /// The effect of `EMIT` on the slots: passes the outputs to `emitter`, copies them to the
    /// selected slot, and sends slots 0-2 to `emitter` if `primitive` is set.
    pub fn emit(self, outputs: &Registers, slots: &mut [Registers; 4], emitter: &mut dyn Emitter) {
        emitter.vertex(outputs, self);
        slots[usize::from(self.vertex & 3)] = *outputs;
        if self.primitive {
            let [a, b, c, _] = &*slots;
            emitter.triangle([a, b, c], self.winding);
        }
    }
}

impl From<Setemit> for EmitState {
    fn from(s: Setemit) -> EmitState {
        EmitState { vertex: s.vertex, primitive: s.primitive, winding: s.winding }
    }
}

impl Unit {
    /// A unit with all registers zero.
    pub fn new() -> Unit {
        Unit {
            v: [[0.0; 4]; REGS],
            r: [[0.0; 4]; REGS],
            o: [[[0.0; 4]; REGS]; 2],
            slots: [[[0.0; 4]; REGS]; 4],
            a0: [0; 2],
            al: 0,
            cmp: [false; 2],
            bank: 0,
            setemit: EmitState::default(),
        }
    }

    /// The current output bank, which holds the results of a vertex program.
    pub fn outputs(&self) -> &Registers {
        &self.o[usize::from(self.bank & 1)]
    }

    /// The meaning of `EMIT`, for all engines: [`EmitState::emit`] with the current outputs, then a
    /// change of bank.
    pub fn emit(&mut self, emitter: &mut dyn Emitter) {
        let bank = usize::from(self.bank & 1);
        self.setemit.emit(&self.o[bank], &mut self.slots, emitter);
        self.bank = (bank ^ 1) as u8;
    }
}

impl Default for Unit {
    fn default() -> Unit {
        Unit::new()
    }
}

/// Receives what a geometry program emits.
///
/// ```
/// # use picajit::{Engine, Entry, Uniforms, Unit};
/// use picajit::state::{EmitState, Emitter, Registers};
///
/// #[derive(Default)]
/// struct Triangles(Vec<[[f32; 4]; 3]>);
///
/// impl Emitter for Triangles {
///     fn triangle(&mut self, vertices: [&Registers; 3], winding: bool) {
///         let [a, b, c] = vertices.map(|outputs| outputs[0]);
///         self.0.push(if winding { [b, a, c] } else { [a, b, c] });
///     }
/// }
///
/// # let source = ".gsh\n.proc main\nsetemit 0\nmov o0, v0\nemit\nsetemit 1\nmov o0, v1\nemit\n\
/// #     setemit 2, prim\nmov o0, v2\nemit\nend\n.end\n";
/// # let program = picajit::text::assemble(source).unwrap().shbin.program().unwrap();
/// # let shader = Engine::default().shader(&program, Entry::geometry(0));
/// let mut unit = Unit::new();
/// (unit.v[0], unit.v[1], unit.v[2]) = ([1.0; 4], [2.0; 4], [3.0; 4]);
/// let mut triangles = Triangles::default();
/// shader.run_geometry(&Uniforms::default(), &mut unit, &mut triangles);
/// assert_eq!(triangles.0, [[[1.0; 4], [2.0; 4], [3.0; 4]]]);
/// ```
pub trait Emitter {
    /// One `EMIT`, before it fills its slot: all output registers, and the parameters of the last
    /// `SETEMIT`. For emitters with slots of their own; the default does nothing.
    fn vertex(&mut self, outputs: &Registers, how: EmitState) {
        let _ = (outputs, how);
    }

    /// One triangle: the output registers of vertex slots 0, 1, 2, not compacted. With `winding`,
    /// primitive assembly exchanges the first two vertices, in topology 3 only (the host knows the
    /// topology).
    ///
    /// A panic here propagates to the caller that runs the shader; the unit's registers are then
    /// unspecified.
    fn triangle(&mut self, vertices: [&Registers; 3], winding: bool);
}

/// An emitter that discards: for vertex programs, and for callers without use for triangles.
pub struct NoEmitter;

impl Emitter for NoEmitter {
    fn triangle(&mut self, _: [&Registers; 3], _: bool) {}
}
