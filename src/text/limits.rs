//! How much the language and the tables of an entry point hold.

/// Depth of nested blocks, of all kinds together.
pub(super) const MAX_BLOCKS: usize = 32;
/// Words after which a vertex file takes no further instruction. The test is "more than", so one
/// more passes, as in picasso.
pub(super) const VERTEX_WORDS: usize = 512;
/// Warnings that are kept. A file of nothing but oddities would otherwise become many times its
/// size.
pub(super) const MAX_WARNINGS: usize = 1000;
/// Declarations that the vertex files' shared uniforms have room for.
pub(super) const MAX_DECLARATIONS: usize = 96;
/// Registers that one uniform or array may span; no class has more.
pub(super) const MAX_SIZE: i64 = 96;
/// Rows of the constant table, and of the uniform table.
pub(super) const MAX_ROWS: usize = 96;
/// Rows of the output table.
pub(super) const MAX_OUTPUTS: usize = 16;
/// Descriptors that `.opdesc` may give: hosts keep a table as long as its 12-bit index register
/// reaches.
pub(super) const MAX_GIVEN: usize = 4096;
