//! Registers -> what a draw derives from them, kept until one of these registers changes.
//!
//! [`configuring_bits`](super::registers::configuring_bits) names the registers. This file must not
//! know addresses and counts, which change with every draw.

use super::assembly::Topology;
use super::fetch::FetchPlan;
use super::geometry::{Geometry, GeometryMode};
use super::output_mapping::OutputPlan;
use super::registers::{PRIMITIVE_CONFIG, RegisterFile};
use super::rows::VertexRows;
use super::vertex_format::VertexFormat;
use crate::isa::{REGS, Stage};
use crate::semantics::Semantics;
use crate::state::{Vec4, Vertices};

/// What a draw derives from registers.
#[repr(C)] // what most draws use comes first
pub(super) struct DrawConfiguration {
    /// Outputs to the sink's vertices.
    pub(super) plan: OutputPlan,
    pub(super) topology: Topology,
    /// The outputs that are mapped, or that the geometry unit takes.
    pub(super) output_mask: u16,
    /// Registers of a vertex's packed outputs.
    pub(super) output_stride: usize,
    pub(super) fetch: FetchPlan,
    /// The `v` register of each attribute, for hosts that fetch.
    registers: [u8; REGS],
    attributes: usize,
    /// If the unit is in use.
    pub(super) geometry: Option<Geometry>,
    /// Outputs to the vertices of an incomplete primitive, if `plan` lacks some.
    semantics: Option<OutputPlan>,
}

impl DrawConfiguration {
    /// The configuration for a draw with this vertex format: the one of the last draw, if it is.
    #[inline]
    pub(super) fn get<'a>(
        current: &'a mut Option<DrawConfiguration>,
        registers: &RegisterFile,
        format: VertexFormat,
        rows: &mut VertexRows,
    ) -> &'a DrawConfiguration {
        if current.as_ref().is_none_or(|c| *c.plan.format() != format) {
            rows.discard();
            DrawConfiguration::derive(current, registers, format);
        }
        current.as_ref().expect("created where it was missing")
    }

    // Not inlined: it would take twenty cache lines of each draw's stack.
    #[cold]
    #[inline(never)]
    fn derive(to: &mut Option<DrawConfiguration>, registers: &RegisterFile, format: VertexFormat) {
        *to = Some(DrawConfiguration::new(registers, format));
    }

    fn new(registers: &RegisterFile, format: VertexFormat) -> DrawConfiguration {
        let map = registers.output_map(Stage::Vertex);
        let plan = OutputPlan::new(&map, format);
        let topology = Topology::from_register(registers.get(PRIMITIVE_CONFIG));
        let geometry = registers.has_geometry().then(|| Geometry::new(registers, topology, plan.is_default));
        let output_mask = if geometry.is_some() { registers.output_mask(Stage::Vertex) } else { plan.mask };
        DrawConfiguration {
            fetch: FetchPlan::new(registers),
            registers: registers.permutation(Stage::Vertex),
            attributes: registers.attributes(Stage::Vertex),
            semantics: (!plan.is_default).then(|| OutputPlan::semantics(&map)),
            plan,
            topology,
            geometry,
            output_mask,
            output_stride: Vertices::stride_for(output_mask),
        }
    }

    /// Loads what a draw of few vertices reads of it. See [`prefetch`](super::prefetch).
    #[inline(always)]
    pub(super) fn prefetch(&self) -> u32 {
        self.plan.format().stride() as u32 ^ u32::from(self.output_mask) ^ self.fetch.prefetch()
    }

    /// Whether outputs are read after their vertex is mapped: by the geometry unit, or since an
    /// incomplete primitive holds more than the sink's format.
    #[inline(always)]
    pub(super) fn keeps_outputs(&self) -> bool {
        self.geometry.is_some() || !self.plan.is_default
    }

    /// Whether the stream of vertices holds vertex counts.
    pub(super) fn counts_vertices(&self) -> bool {
        self.geometry.as_ref().is_some_and(|unit| matches!(unit.mode, GeometryMode::Variable { .. }))
    }

    /// Outputs to the vertices of an incomplete primitive.
    pub(super) fn semantics(&self) -> &OutputPlan {
        self.semantics.as_ref().unwrap_or(&self.plan)
    }

    /// The vertex of an incomplete primitive from row `row` of these packed outputs.
    #[inline(never)]
    pub(super) fn map_saved(&self, outputs: &[Vec4], row: usize, to: &mut Semantics) {
        *to = self.semantics().map_semantics(&outputs[row * self.output_stride..][..self.output_stride]);
    }

    /// The `v` registers of the attributes that a host fetches, in their order. Of several attributes
    /// in one register the last counts.
    pub(super) fn attribute_registers(&self) -> &[u8] {
        &self.registers[..self.attributes]
    }
}
