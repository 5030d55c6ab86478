//! Sizes of structures and offsets of their fields.

use crate::capi::*;
use std::mem::offset_of;

/// Compares sizes and offsets with `jit-tests/capi/fields.txt`. A test with a C compiler compares
/// that file with the header.
#[test]
fn structures_match_the_recorded_sizes_and_offsets() {
    macro_rules! structures {
        ($($name:literal $type:ident { $($field:ident),* })*) => {
            [$(
                format!("{} {}\n", $name, size_of::<$type>()),
                $(format!("{}.{} {}\n", $name, stringify!($field), offset_of!($type, $field)),)*
            )*].concat()
        };
    }
    let text = structures! {
        "pj_unit" PjUnit { v, r, o, a0, al, cmp, bank, emit_vertex, emit_primitive, emit_winding, reserved }
        "pj_uniforms" PjUniforms { c, i, b, reserved }
        "pj_layout" PjLayout {
            struct_size, unit_bytes, v, r, o, a0x, a0y, al, cmp_x, cmp_y, geometry, bank_stride, bank, emit_vertex,
            emit_primitive, emit_winding, uniforms_bytes, c, i, bools, b
        }
        "pj_options" PjOptions {
            struct_size, backend, precision, fuel, crosscheck, cache_bytes, layout, event, user, profile_directory, profiler,
            threads, memory, compile_after, geometry_fuel
        }
        "pj_memory" PjMemory { struct_size, install, release, user }
        "pj_stats" PjStats { struct_size, hits, misses, evictions, entries, bytes, compilations, native }
        "pj_shader_info" PjShaderInfo { struct_size, tier, deoptimised, groups, bailouts, native_bytes }
        "pj_analysis" PjAnalysis {
            struct_size, carried_temps, carried_outputs, shortest_path, longest_path, carried_state, independent,
            inputs, outputs, divergent_branches, reserved
        }
        "pj_batch" PjBatch { struct_size, count, inputs, outputs, input_mask, output_mask, input_stride, output_stride, preserve_unit, reserved, ran }
        "pj_emitted" PjEmitted { vertex, primitive, winding, reserved, outputs }
        "pj_emit_buffer" PjEmitBuffer { struct_size, vertices, capacity, count, full, user, output_mask }
        "pj_step" PjStep {
            struct_size, text, pc, next, wrote, index, mask, value, a0, al, cmp, bank, emit_vertex, emit_primitive,
            emit_winding, reserved
        }
        "pj_gpu_host" PjGpuHost { struct_size, triangle, draw, wrote, user }
        "pj_list_position" PjListPosition { command, values }
        "pj_draw" PjDraw {
            struct_size, count, vertices, fetch, indices, triangle, user, index_bytes, vertex_cache_entries
        }
        "pj_region" PjRegion { bytes, length, address, reserved }
        "pj_guest_draw" PjGuestDraw {
            struct_size, regions, region_count, memory, triangles, offsets, user, stride, limit, vertex_cache_entries,
            effect
        }
        "pj_report" PjReport {
            struct_size, vertices, reused, geometry_runs, dropped, triangles, vertex_exit, geometry_exit, limited,
            notes
        }
        "pj_gpu_upload_stats" PjGpuUploadStats { struct_size, lookups, programs }
        "pj_gpu_unit" PjGpuUnit {
            v, r, o, slots, c, opdescs, a0, al, float_words, i, b, code_index, opdesc_index, float_index, float32,
            float_count, cmp, bank, emit_vertex, emit_primitive, emit_winding, reserved
        }
        "pj_gpu_state" PjGpuState {
            struct_size, registers, vertex_code, geometry_code, vertex, geometry, fixed_defaults, fixed_vertex,
            fixed_words, fixed_index, fixed_words_count, fixed_count, assembly_count, assembly_vertices, geometry_input_vectors,
            geometry_input_vertices, geometry_input_expected, geometry_input_count, geometry_input_uniform, assembly_oldest, reserved
        }
        "pj_binding" PjBinding { set, binding }
        "pj_attribute" PjAttribute { location, kind }
        "pj_varying" PjVarying { location, count, components }
        "pj_interface" PjInterface {
            struct_size, attributes, varyings, varying_count, stage, outputs, first_location, position,
            position_components, uniform_order, packed_integers, uniforms, input_buffer, output_buffer, clip_block,
            reserved
        }
        "pj_device" PjDevice { struct_size, special_values, rounding, subnormals, reserved }
        "pj_gpu_code_info" PjGpuCodeInfo {
            struct_size, spirv, spirv_words, inputs, outputs, equal_subnormals, assumed_state, assumed_temps,
            assumed_outputs, block_bytes
        }
        "pj_gpu_self_test" PjGpuSelfTest { struct_size, block, block_bytes, count, inputs, outputs }
        "pj_stream_attribute" PjStreamAttribute { stream, offset, vk_format }
        "pj_placement" PjPlacement {
            struct_size, shader, cpu_only, varying_count, strides, streams, attributes, varyings, position_components,
            reserved
        }
        "pj_stream" PjStream { bytes, length }
        "pj_handed_draw" PjHandedDraw { struct_size, streams, triangles, triangle_count, vertex_count }
        "pj_direct_call" DirectCall { function, context }
    };
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/jit-tests/capi/fields.txt"), &text).expect("written");
    }
    assert_eq!(text, include_str!("../../../jit-tests/capi/fields.txt"));
}

#[test]
fn a_failed_direct_call_has_the_status_of_an_internal_error() {
    assert_eq!(DirectCall::FAILED, PJ_INTERNAL);
}
