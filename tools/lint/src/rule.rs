//! The rules: name, severity, evidence and remedy of each, as one table.

use std::fmt;

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the shader may well be right.
    Note,
    /// The result is undefined, or differs between consoles and emulators.
    Warning,
    /// Consoles hang or draw nothing, as far as is known.
    Error,
}

impl Severity {
    /// Its name: `note`, `warning` or `error`.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident $name:literal $severity:ident $evidence:literal $help:literal;)*) => {
        /// A kind of finding. docs/lint.md explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
            /// All rules, gravest first.
            pub const ALL: &[Rule] = &[$(Rule::$variant,)*];

            /// Its name in output and in `allow` comments.
            pub const fn name(self) -> &'static str {
                match self { $(Rule::$variant => $name,)* }
            }

            /// Its severity.
            pub const fn severity(self) -> Severity {
                match self { $(Rule::$variant => Severity::$severity,)* }
            }

            /// The source of the claim.
            pub const fn evidence(self) -> &'static str {
                match self { $(Rule::$variant => $evidence,)* }
            }

            /// What to do.
            pub const fn help(self) -> &'static str {
                match self { $(Rule::$variant => $help,)* }
            }
        }
    };
}

rules! {
    /// A component of the output map is not written on some path.
    UnwrittenOutput "unwritten-output" Error
        "3dbrew, Pitfalls: an output component that is mapped and not written freezes the GPU; pocketjs#252 reports hangs and empty pictures; nihstro#28. A warning in geometry programs: four that shipped on consoles leave some unwritten"
        "write every mapped component on every path, or map fewer";
    /// Execution runs past the last word.
    RunsOffEnd "runs-off-end" Error
        "picasso#34: a console runs on through leftovers of earlier uploads"
        "put an `end` at the end of the entry procedure";
    /// Two MOVAs run one after the other.
    AdjacentMova "adjacent-mova" Error
        "3dbrew, Pitfalls: two adjacent MOVAs freeze the GPU, and one NOP between them is enough"
        "put another instruction between them, or write `mova a0.xy` once";
    /// BREAK without an open loop.
    BreakOutsideLoop "break-outside-loop" Error
        "3dbrew: BREAK outside of a loop hangs"
        "break only inside of a `for`";
    /// A run that reaches this point never ends.
    EndlessLoop "endless-loop" Error
        "follows from the meaning of the instructions: no path leads to an `end`"
        "add an exit whose condition can change in the loop";
    /// An instruction reads two different inputs.
    TwoInputs "two-inputs" Error
        "picasso#6 (fincs): one instruction that reads two v registers gives wrong results"
        "copy one of them to a temporary first";
    /// A vertex program is longer than the unit's memory.
    BeyondVertexUnit "beyond-vertex-unit" Error
        "GBATEK: the entry point of a vertex unit has nine bits (read back on a console)"
        "shorten the program to 512 words";
    /// A register is read before the run writes it.
    ReadBeforeWrite "read-before-write" Warning
        "citra#1529 (deduced on a console): registers keep what the vertex before left; citra#7366: Hero Bank reads r15.w so and needs 1"
        "write the component first";
    /// An output is not written again since the last EMIT.
    StaleOutput "stale-output" Warning
        "azahar#2338 (console test): EMIT exchanges two output banks, so a component that is not written again shows the vertex before the last"
        "write every mapped component before each `emit`";
    /// Geometry invocations depend on each other.
    CarriedState "carried-state" Note
        "citra#4894: geometry programs were taken off the GPU since such dependence was not detected"
        "write the registers before they are read, or run the invocations in order";
    /// EMIT without SETEMIT in the run.
    EmitWithoutSetemit "emit-without-setemit" Warning
        "3dbrew: SETEMIT stays in force, also for the next invocation"
        "put a `setemit` before the first `emit`";
    /// The ends of two scopes coincide so that one stays open.
    ScopeCollision "scope-collision" Warning
        "console tests by flacs and Tilka (3dbrew): a scope closes only when the word before its end runs, one IF and one LOOP at a time"
        "put a `nop` between the ends, or before the end that a jump goes to";
    /// A jump or call in the last word of a scope is dropped.
    DroppedTransfer "dropped-transfer" Warning
        "console tests by flacs and Tilka (3dbrew): the scope that ends there has precedence over the jump"
        "put a `nop` after the jump or call";
    /// More scopes open than the hardware remembers.
    ScopeDepth "scope-depth" Warning
        "console tests by flacs and Tilka (3dbrew): 4 calls, 8 IFs and 4 loops are remembered, and the oldest is forgotten"
        "nest less deeply, and don't jump out of scopes";
    /// A BREAK leaves a scope inside the loop open.
    BreakInScope "break-in-scope" Warning
        "3dbrew: a BREAK inside of an IF or CALL leaves its scope open"
        "break at the level of the loop";
    /// An element beyond its array, or beyond c95.
    OutOfBounds "out-of-bounds" Warning
        "follows from the declaration and the constants; beyond c95 a read gives (1, 1, 1, 1) (console tests by Steveice10, citra#6910)"
        "index fewer elements, or declare more";
    /// A write through one alias over the value of another that is read later.
    SharedRegister "shared-register" Warning
        "follows from the code: two aliases are one register"
        "give one of the aliases another register";
    /// A loop with step 0 reads aL.
    LoopStep "loop-step" Warning
        "follows from the constant: its z is what each iteration adds to aL"
        "make the third value of the constant 1, or what aL should grow by";
    /// RCP, RSQ or LG2 of a constant that has no finite result.
    InfiniteResult "infinite-result" Warning
        "fp-tests 0, 3 and 5 (console): rcp(0) and rsq(0) are inf, rsq of a negative number is NaN"
        "use another constant, or remove the instruction";
    /// No output is the position.
    NoPosition "no-position" Warning
        "follows from the output table: the rasteriser receives no position"
        "map an output with `.out NAME position`";
    /// The assembler reads a text otherwise than it looks.
    LenientReading "lenient-reading" Warning
        "picasso accepts the text (docs/language.md, sections 12 and 13)"
        "write what is meant: docs/language.md lists these readings";
    /// EMIT or SETEMIT in a vertex program.
    EmitInVertex "emit-in-vertex" Warning
        "no document says what a vertex unit does with it"
        "declare the file as a geometry program with `.gsh`";
    /// A word without a documented meaning.
    UndefinedOpcode "undefined-opcode" Warning
        "no document defines the opcode"
        "check that the words are complete";
    /// Bits 9:8 of a transfer are set.
    LengthBits "length-bits" Warning
        "3dbrew gives the length eight bits; whether hardware looks at the next two is unknown"
        "make the block at most 255 words long";
    /// An instruction names a descriptor that was not uploaded.
    MissingDescriptor "missing-descriptor" Warning
        "the descriptor keeps what an earlier program uploaded"
        "upload the whole descriptor table";
    /// An instruction writes nothing.
    EmptyMask "empty-mask" Note
        "picasso#29: packed descriptors are shared, and a wrong one changes the mask"
        "check the descriptor of the instruction";
    /// An input is read and not declared.
    UndeclaredInput "undeclared-input" Warning
        "the input mask configures the unit; what an unmapped input holds is unknown"
        "declare it with `.in`";
    /// An input is declared and not read.
    UnusedInput "unused-input" Note
        "follows from the code"
        "remove the declaration, or read the input";
    /// An output is written and not declared.
    UnmappedOutput "unmapped-output" Note
        "follows from the tables: nothing receives the register"
        "map it with `.out`, or don't write it";
    /// Two rows of the output table have the same component or meaning.
    DuplicateOutput "duplicate-output" Warning
        "emulators differ: in some the first row counts, in others the last"
        "map each component once";
    /// A uniform is used that nothing binds.
    UnboundUniform "unbound-uniform" Note
        "follows from the tables: no constant and no name covers the register"
        "declare it, or make sure that the host sets it by number";
    /// A register is a constant twice, with two values.
    ConstantOverwritten "constant-overwritten" Warning
        "binding the shader loads constants in the order of the table, so the later one remains"
        "give the constant a register of its own";
    /// A file has entries with and without geometry programs.
    MixedStages "mixed-stages" Note
        "citro3d#56 and #53: draws with, without and again with a geometry program hang or lose uniforms"
        "set all uniforms again after each change of the program";
    /// A product of zero and infinity.
    ZeroTimesInfinity "zero-times-infinity" Note
        "fp-tests 20-27 (console): 0 * inf is 0; in IEEE arithmetic, which some emulators use, it is NaN"
        "avoid the infinity if the shader must look the same everywhere";
    /// A vertex program of very many instructions.
    LongRun "long-run" Note
        "follows from the constants; at one instruction a step and 268 MHz a thousand such vertices take longer than a frame"
        "let loops run less often: an integer constant of x runs its loop x + 1 times";
    /// An instruction whose result nothing uses.
    UnusedValue "unused-value" Note
        "follows from the code"
        "remove the instruction, or use what it writes";
    /// A name that is declared and never used.
    UnusedName "unused-name" Note
        "follows from the source"
        "remove the declaration, or use the name";
    /// Words that no entry reaches.
    Unreachable "unreachable" Note
        "follows from the code"
        "remove them";
    /// A file without entries.
    NoEntries "no-entries" Warning
        "follows from the tables"
        "add an entry procedure";
    /// Control flow is too large to analyse.
    ControlFlow "control-flow" Note
        "a limit of picajit: scopes give control flow too many states"
        "other rules don't apply to this entry";
}

impl Rule {
    /// The rule of this name.
    pub fn from_name(name: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
