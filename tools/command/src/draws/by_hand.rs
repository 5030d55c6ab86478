//! The ceilings: fetch and output map by hand around the batch kernel, and everything by hand.

use super::{Consumer, Draws, GRID, Order};
use picajit::engine::Shader;
use picajit::semantics::Semantics;
use picajit::state::{Batch, Uniforms, Unit, Vec4, Vertices, VerticesMut};

/// Buffers of the hand-written draws.
#[derive(Default)]
pub(super) struct Hand {
    unit: Unit,
    inputs: Vec<Vec4>,
    outputs: Vec<Vec4>,
    vertices: Vec<Semantics>,
    remap: Vec<u32>,
    list: Vec<u32>,
}

/// Runs and maps a group of vertices.
pub(super) trait Runs {
    fn run(
        &self,
        fetch: impl Fn(usize) -> [Vec4; 3],
        count: usize,
        hand: (&mut Unit, &mut [Vec4], &mut [Vec4]),
        to: &mut [Semantics],
    );
}

/// The library's batch kernel.
pub(super) struct Kernel<'a> {
    pub(super) shader: &'a Shader,
    pub(super) uniforms: &'a Uniforms,
}

impl Runs for Kernel<'_> {
    #[inline(always)]
    fn run(
        &self,
        fetch: impl Fn(usize) -> [Vec4; 3],
        count: usize,
        (unit, inputs, outputs): (&mut Unit, &mut [Vec4], &mut [Vec4]),
        to: &mut [Semantics],
    ) {
        let rows: &mut [[Vec4; 3]] = inputs.as_chunks_mut().0;
        rows[..count].iter_mut().enumerate().for_each(|(n, row)| *row = fetch(n));
        let mut batch = Batch {
            inputs: Vertices::packed(inputs, 3, count).expect("the buffers are large enough"),
            outputs: VerticesMut::packed(outputs, 3, count).expect("the buffers are large enough"),
            input_mask: 0b111,
            output_mask: 0b111,
            preserve_unit: true,
        };
        self.shader.run_batch(self.uniforms, unit, &mut batch);
        let rows: &[[Vec4; 3]] = outputs.as_chunks().0;
        rows[..count].iter().zip(to).for_each(|(row, to)| map(row, to));
    }
}

/// The program of 7 words, in Rust.
pub(super) struct Transform<'a> {
    pub(super) uniforms: &'a Uniforms,
}

impl Runs for Transform<'_> {
    #[inline(always)]
    fn run(
        &self,
        fetch: impl Fn(usize) -> [Vec4; 3],
        count: usize,
        _: (&mut Unit, &mut [Vec4], &mut [Vec4]),
        to: &mut [Semantics],
    ) {
        // Columns of the matrix.
        let columns: [Vec4; 4] = std::array::from_fn(|k| std::array::from_fn(|n| self.uniforms.c[n][k]));
        for (n, to) in to[..count].iter_mut().enumerate() {
            let [position, colour, texture] = fetch(n);
            // In the order of a dot product.
            let out: Vec4 = std::array::from_fn(|n| {
                columns[0][n] * position[0]
                    + columns[1][n] * position[1]
                    + columns[2][n] * position[2]
                    + columns[3][n] * position[3]
            });
            map(&[out, colour, texture], to);
        }
    }
}

/// Position, clamped colour and texture coordinates; the rest is 1 already.
#[inline(always)]
fn map([position, colour, texture]: &[Vec4; 3], to: &mut Semantics) {
    to[..4].copy_from_slice(position);
    to[8..12].copy_from_slice(&colour.map(|c| if c.abs() < 1.0 { c.abs() } else { 1.0 }));
    to[12..14].copy_from_slice(&texture[..2]);
}

/// A hand-written draw.
pub(super) struct ByHand<'a, R>(
    pub(super) R,
    pub(super) &'a mut Hand,
    pub(super) Order,
    pub(super) &'a [u16],
    pub(super) &'a mut Consumer,
);

impl<R: Runs> Draws<()> for ByHand<'_, R> {
    #[inline(always)]
    fn draw(self, fetch: impl Fn(usize) -> [Vec4; 3] + Copy) {
        const CHUNK: usize = 252;
        let ByHand(run, hand, order, indices, consumer) = self;
        let Hand { unit, inputs, outputs, vertices, remap, list } = hand;
        if vertices.is_empty() {
            vertices.resize(GRID * GRID, [1.0; 24]);
            inputs.resize(3 * CHUNK, [0.0; 4]);
            outputs.resize(3 * CHUNK, [0.0; 4]);
            remap.resize(1 << 16, u32::MAX);
        }
        let strip = |consumer: &mut Consumer, count: usize, vertex: &dyn Fn(usize) -> usize, vertices: &[Semantics]| {
            for n in 0..count.saturating_sub(2) {
                let [a, b] = if n % 2 == 0 { [n, n + 1] } else { [n + 1, n] };
                let vertex = |n: usize| &vertices[vertex(n)];
                consumer.add([vertex(a), vertex(b), vertex(n + 2)]);
            }
        };
        match order {
            Order::List(count) => {
                for start in (0..count).step_by(CHUNK) {
                    let n = CHUNK.min(count - start);
                    run.run(|k| fetch(start + k), n, (unit, inputs, outputs), vertices);
                    vertices[..n].chunks_exact(3).for_each(|t| consumer.add([&t[0], &t[1], &t[2]]));
                }
            }
            Order::Strip(count) => {
                run.run(fetch, count, (unit, inputs, outputs), vertices);
                strip(consumer, count, &|n| n, vertices);
            }
            Order::Grid | Order::GridStrips => {
                for start in (0..GRID * GRID).step_by(CHUNK) {
                    let n = CHUNK.min(GRID * GRID - start);
                    run.run(|k| fetch(start + k), n, (unit, inputs, outputs), &mut vertices[start..]);
                }
                match order {
                    Order::Grid => {
                        let triangles: &[[u16; 3]] = indices.as_chunks().0;
                        let vertex = |n: u16| &vertices[usize::from(n)];
                        triangles.iter().for_each(|&[a, b, c]| consumer.add([vertex(a), vertex(b), vertex(c)]));
                    }
                    _ => strip(consumer, indices.len(), &|n| indices[n].into(), vertices),
                }
            }
            Order::Sparse => {
                list.clear();
                for &n in indices {
                    let slot = &mut remap[usize::from(n)];
                    if *slot == u32::MAX {
                        *slot = list.len() as u32;
                        list.push(n.into());
                    }
                }
                for start in (0..list.len()).step_by(CHUNK) {
                    let n = CHUNK.min(list.len() - start);
                    let vertex = &list[start..start + n];
                    run.run(|k| fetch(vertex[k] as usize), n, (unit, inputs, outputs), &mut vertices[start..]);
                }
                let triangles: &[[u16; 3]] = indices.as_chunks().0;
                let vertex = |n: u16| &vertices[remap[usize::from(n)] as usize];
                triangles.iter().for_each(|&[a, b, c]| consumer.add([vertex(a), vertex(b), vertex(c)]));
                list.iter().for_each(|&n| remap[n as usize] = u32::MAX);
            }
        }
    }
}
