//! Registers -> what a draw derives from them, kept until one of these registers changes.
//!
//! [`Kind`](super::registers::Kind) says which registers these are. This file must not
//! know addresses and counts, which change with every draw.

use super::assembly::Topology;
use super::fetch::FetchPlan;
use super::output_mapping::{OutputMapping, OutputPlan};
use super::registers::{PRIMITIVE_CONFIG, RegisterFile};
use super::rows::VertexRows;
use super::vertex_format::VertexFormat;
use crate::isa::Stage;

/// What a draw derives from registers.
pub(super) struct DrawConfiguration {
    pub(super) fetch: FetchPlan,
    pub(super) mapping: OutputMapping,
    pub(super) plan: OutputPlan,
    pub(super) topology: Topology,
}

impl DrawConfiguration {
    /// The configuration for a draw with this vertex format: the one of the last draw, if it is.
    pub(super) fn get<'a>(
        current: &'a mut Option<DrawConfiguration>,
        registers: &RegisterFile,
        format: VertexFormat,
        rows: &mut VertexRows,
    ) -> &'a DrawConfiguration {
        if current.as_ref().is_some_and(|c| *c.plan.format() != format) {
            *current = None;
        }
        current.get_or_insert_with(|| {
            rows.discard();
            let mapping = OutputMapping::new(&registers.output_map(Stage::Vertex));
            DrawConfiguration {
                fetch: FetchPlan::new(registers),
                plan: OutputPlan::new(&mapping, format),
                mapping,
                topology: Topology::from_register(registers.get(PRIMITIVE_CONFIG)),
            }
        })
    }
}
