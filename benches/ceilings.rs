//! Batch code against its ceiling, hand-written SIMD: `cargo bench --bench ceilings`. Nanoseconds a
//! vertex of three built-in shaders, each also in Rust with SIMD intrinsics, four vertices at a
//! time in 128 bits.
//!
//! The hand-written code does the same operations in the same order, so that the bits are equal,
//! which is checked first. It uses plain products without guards for 0 * infinity, and has no
//! masks, branches or carried registers. It is compiled for AVX2, like the batch code. `unsafe` is
//! needed for calls of AVX2 functions and for the storing intrinsic.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)] // its tests have no harness here, and other CPUs have nothing to compare
#[path = "../tools/command/src/builtin.rs"]
mod builtin;
#[allow(dead_code, unused_imports)] // this bench uses a part of it
#[path = "../tools/command/src/measure.rs"]
mod measure;
#[allow(dead_code)] // other CPUs have nothing to draw
#[path = "common/picture.rs"]
mod picture;
#[allow(dead_code)] // its tests have no harness here
#[path = "../tools/command/src/plot.rs"]
mod plot;

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("no hand-written code for this CPU");
}

#[cfg(target_arch = "x86_64")]
fn main() {
    x86::main();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::plot::{Group, Plot};
    use super::{builtin, measure};
    use picajit::internals::generator;
    use picajit::internals::kernel::{Kernel, OnUnits, UnitKernel};
    use picajit::state::{Batch, BatchExit, Emitter, Exit, NoEmitter, Uniforms, Unit, Vec4};
    use std::arch::x86_64::*;
    use std::sync::Arc;
    use std::time::Duration;

    const BUDGET: Duration = Duration::from_secs(2);

    /// A hand-written shader for whole groups. Vertices have only the registers that it uses.
    type ByHand = unsafe fn(&Uniforms, &[Vec4], &mut [Vec4]);

    /// Hand-written code as a kernel.
    struct Ceiling {
        single: Arc<dyn Kernel>,
        by_hand: ByHand,
    }

    impl UnitKernel for Ceiling {
        fn run(&self, uniforms: &Uniforms, unit: &mut Unit, emitter: &mut dyn Emitter) -> Exit {
            self.single.run(uniforms, unit, emitter)
        }

        fn run_batch(
            &self,
            uniforms: &Uniforms,
            unit: &mut Unit,
            batch: &mut Batch<'_>,
            _: &mut dyn Emitter,
        ) -> BatchExit {
            if batch.inputs.len().is_multiple_of(WIDTH) {
                // SAFETY: `main` makes ceilings only where there is AVX2.
                unsafe { (self.by_hand)(uniforms, batch.inputs.registers(), batch.outputs.registers()) };
                return BatchExit { exit: Exit::End, ran: batch.len() };
            }
            self.single.run_batch(uniforms, unit, batch, &mut NoEmitter)
        }
    }

    const WIDTH: usize = 4;

    /// One component each of four vertices.
    type Columns = [__m128; 4];

    #[inline]
    #[target_feature(enable = "avx2")]
    fn splat(x: f32) -> __m128 {
        _mm_set1_ps(x)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn row(r: &[f32; 4]) -> __m128 {
        _mm_setr_ps(r[0], r[1], r[2], r[3])
    }

    /// Transposes AoS to SoA, or back.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transposed([a, b, c, d]: Columns) -> Columns {
        let (low, high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (low2, high2) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        [_mm_movelh_ps(low, low2), _mm_movehl_ps(low2, low), _mm_movelh_ps(high, high2), _mm_movehl_ps(high2, high)]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load<const IN: usize>(inputs: &[[Vec4; IN]; WIDTH], n: usize) -> Columns {
        transposed([row(&inputs[0][n]), row(&inputs[1][n]), row(&inputs[2][n]), row(&inputs[3][n])])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store<const OUT: usize>(outputs: &mut [[Vec4; OUT]; WIDTH], n: usize, columns: Columns) {
        let [a, b, c, d] = transposed(columns);
        for (output, row) in outputs.iter_mut().zip([a, b, c, d]) {
            // SAFETY: the register has four floats, and the intrinsic wants no alignment.
            unsafe { _mm_storeu_ps(output[n].as_mut_ptr(), row) };
        }
    }

    #[inline]
    fn groups<const IN: usize>(inputs: &[Vec4]) -> &[[[Vec4; IN]; WIDTH]] {
        inputs.as_chunks().0.as_chunks().0
    }

    #[inline]
    fn groups_mut<const OUT: usize>(outputs: &mut [Vec4]) -> &mut [[[Vec4; OUT]; WIDTH]] {
        outputs.as_chunks_mut().0.as_chunks_mut().0
    }

    #[inline]
    fn copy<const IN: usize, const OUT: usize>(
        inputs: &[[Vec4; IN]; WIDTH],
        from: usize,
        outputs: &mut [[Vec4; OUT]; WIDTH],
        to: usize,
    ) {
        outputs.iter_mut().zip(inputs).for_each(|(o, i)| o[to] = i[from]);
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn uniform(uniforms: &Uniforms, n: usize) -> Columns {
        let [x, y, z, w] = uniforms.c[n];
        [splat(x), splat(y), splat(z), splat(w)]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn dp4(a: &Columns, b: &Columns) -> __m128 {
        let xy = _mm_add_ps(_mm_mul_ps(a[0], b[0]), _mm_mul_ps(a[1], b[1]));
        _mm_add_ps(xy, _mm_add_ps(_mm_mul_ps(a[2], b[2]), _mm_mul_ps(a[3], b[3])))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn dp3(a: &Columns, b: &Columns) -> __m128 {
        _mm_add_ps(_mm_add_ps(_mm_mul_ps(a[0], b[0]), _mm_mul_ps(a[1], b[1])), _mm_mul_ps(a[2], b[2]))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rows4(m: &[Columns], v: &Columns) -> Columns {
        [dp4(&m[0], v), dp4(&m[1], v), dp4(&m[2], v), dp4(&m[3], v)]
    }

    /// `a * b` in x, y, z.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn scaled(a: &Columns, b: __m128) -> Columns {
        [_mm_mul_ps(a[0], b), _mm_mul_ps(a[1], b), _mm_mul_ps(a[2], b), a[3]]
    }

    /// `a * s + b` in x, y, z.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mad(a: &Columns, s: __m128, b: &Columns) -> Columns {
        let [x, y, z, _] = scaled(a, s);
        [_mm_add_ps(x, b[0]), _mm_add_ps(y, b[1]), _mm_add_ps(z, b[2]), b[3]]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rcp(a: __m128) -> __m128 {
        // The sum takes the sign off a zero.
        _mm_div_ps(splat(1.0), _mm_add_ps(a, splat(0.0)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rsq(a: __m128) -> __m128 {
        _mm_div_ps(splat(1.0), _mm_sqrt_ps(_mm_add_ps(a, splat(0.0))))
    }

    #[target_feature(enable = "avx2")]
    fn transform(uniforms: &Uniforms, inputs: &[Vec4], outputs: &mut [Vec4]) {
        let (inputs, outputs) = (groups::<3>(inputs), groups_mut::<3>(outputs));
        let u = |n| uniform(uniforms, n);
        let matrix = [u(0), u(1), u(2), u(3)];
        for (inputs, outputs) in inputs.iter().zip(outputs) {
            let position = load(inputs, 0);
            store(outputs, 0, rows4(&matrix, &position));
            copy(inputs, 1, outputs, 1);
            copy(inputs, 2, outputs, 2);
        }
    }

    #[target_feature(enable = "avx2")]
    fn lights(uniforms: &Uniforms, inputs: &[Vec4], outputs: &mut [Vec4]) {
        let (inputs, outputs) = (groups::<3>(inputs), groups_mut::<2>(outputs));
        // projection[4], model_view[4], lights[16], ambient
        let u = |n| uniform(uniforms, n);
        let matrix = [u(0), u(1), u(2), u(3), u(4), u(5), u(6), u(7)];
        // The loop's constants are in the source: four times, aL from 0 in steps of 2.
        let lamps = [(u(8), u(9)), (u(10), u(11)), (u(12), u(13)), (u(14), u(15))];
        let (zero, one, falloff, ambient) = (splat(0.0), splat(1.0), splat(0.125), u(24));
        for (inputs, outputs) in inputs.iter().zip(outputs) {
            let ([x, y, z, _], normal, color) = (load(inputs, 0), load(inputs, 1), load(inputs, 2));
            let r0 = [x, y, z, one];
            let r1 = [dp4(&matrix[4], &r0), dp4(&matrix[5], &r0), dp4(&matrix[6], &r0), one];
            let r2 = [dp3(&matrix[4], &normal), dp3(&matrix[5], &normal), dp3(&matrix[6], &normal), one];
            let r2 = scaled(&r2, rsq(dp3(&r2, &r2)));
            let mut r8 = ambient;
            for (place, shine) in &lamps {
                let way = [_mm_sub_ps(place[0], r1[0]), _mm_sub_ps(place[1], r1[1]), _mm_sub_ps(place[2], r1[2]), one];
                let distance = dp3(&way, &way);
                let way = scaled(&way, rsq(distance));
                let facing = _mm_max_ps(zero, dp3(&way, &r2));
                let bright = _mm_mul_ps(facing, rcp(_mm_add_ps(_mm_mul_ps(distance, falloff), one)));
                r8 = mad(shine, bright, &r8);
            }
            let lit = |c: usize| _mm_min_ps(one, _mm_mul_ps(r8[c], color[c]));
            store(outputs, 1, [lit(0), lit(1), lit(2), color[3]]);
            store(outputs, 0, rows4(&matrix, &r1));
        }
    }

    /// A row of each vertex's own bone.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bone(uniforms: &Uniforms, first: [usize; WIDTH], n: usize) -> Columns {
        let c = |j: usize| row(&uniforms.c[4 + first[j] + n]);
        transposed([c(0), c(1), c(2), c(3)])
    }

    #[target_feature(enable = "avx2")]
    fn skinning(uniforms: &Uniforms, inputs: &[Vec4], outputs: &mut [Vec4]) {
        let (inputs, outputs) = (groups::<5>(inputs), groups_mut::<3>(outputs));
        // projection[4], bones[60], light_direction, ambient, diffuse
        let u = |n| uniform(uniforms, n);
        let (projection, direction, ambient, diffuse) = ([u(0), u(1), u(2), u(3)], u(64), u(65), u(66));
        let (zero, one) = (splat(0.0), splat(1.0));
        for (inputs, outputs) in inputs.iter().zip(outputs) {
            let ([x, y, z, _], normal) = (load(inputs, 0), load(inputs, 1));
            let (bones, weights, r1) = (load(inputs, 2), load(inputs, 3), [x, y, z, one]);
            let first = |c: usize| {
                let number = _mm_floor_ps(_mm_mul_ps(splat(9.5), _mm_add_ps(one, bones[c])));
                let n = _mm_cvttps_epi32(_mm_mul_ps(splat(3.0), number));
                // No bone number is above 18.
                [
                    _mm_extract_epi32::<0>(n) as usize,
                    _mm_extract_epi32::<1>(n) as usize,
                    _mm_extract_epi32::<2>(n) as usize,
                    _mm_extract_epi32::<3>(n) as usize,
                ]
            };
            let (a, b) = (first(0), first(1));
            let (mut placed, mut turned) = ([one; 4], [one; 4]);
            for n in 0..3 {
                let (a, b) = (bone(uniforms, a, n), bone(uniforms, b, n));
                let both = |a, b| _mm_add_ps(_mm_mul_ps(b, weights[1]), _mm_mul_ps(a, weights[0]));
                placed[n] = both(dp4(&a, &r1), dp4(&b, &r1));
                turned[n] = both(dp3(&a, &normal), dp3(&b, &normal));
            }
            store(outputs, 0, rows4(&projection, &placed));
            let turned = scaled(&turned, rsq(dp3(&turned, &turned)));
            let facing = _mm_max_ps(zero, dp3(&direction, &turned));
            store(outputs, 1, mad(&diffuse, facing, &ambient));
            copy(inputs, 4, outputs, 2);
        }
    }

    const SHADERS: [(&str, ByHand); 3] = [("transform", transform), ("lights", lights), ("skinning", skinning)];

    pub fn main() {
        // `cargo test --benches` only checks that this starts.
        let real = std::env::args().any(|a| a == "--bench");
        let (budget, vertices) = if real { (BUDGET, measure::VERTICES) } else { (Duration::ZERO, 64) };
        let (engines, missing) = measure::engines();
        if !is_x86_feature_detected!("avx2") || missing.is_some() {
            println!("nothing to compare here: {}", missing.map_or("no AVX2".to_string(), |reason| reason.to_string()));
            return;
        }
        let named = |name| engines.iter().find(|e| e.name() == name).expect("every engine exists if native code does");
        let (batch, unoptimised) = (named("batch"), named("unoptimised"));
        let mut groups: Vec<Group> = Vec::new();
        println!("{:24}{:>10}{:>10}", "batch", measure::BATCHES[2], measure::BATCHES[3]);
        for (name, by_hand) in SHADERS {
            let source = builtin::BUILTINS.iter().find(|b| b.name == name).expect("it comes with the program").source;
            let shbin = picajit::text::assemble(source).expect("a test assembles each").shbin;
            let program = Arc::new(shbin.program().expect("they are shorter than any limit"));
            let dvle = &shbin.dvles[0];
            let (uniforms, inputs) = (generator::uniforms(dvle), generator::inputs(vertices));
            let mut work = measure::Workload::new(dvle, &program, uniforms, inputs, measure::Stride::Least);
            let single = batch.compile(&program, dvle.entry()).expect("a test compiles each").kernel;
            let ceiling = OnUnits(Ceiling { single: single.clone(), by_hand });
            let yardstick = unoptimised.compile(&program, dvle.entry()).expect("a test compiles each").kernel;
            let first = groups.len();
            let sizes = [measure::BATCHES[2], measure::BATCHES[3]];
            groups.extend(sizes.map(|n| Group { title: format!("{name}, {n}"), bars: Vec::new(), ceiling: None }));
            // Hand-written code has no carried registers, like a batch that preserves the unit.
            for (preserve_unit, name_of_batch) in [(false, "batch"), (true, "preserve")] {
                work.preserve_unit = preserve_unit;
                check(name, &*single, &ceiling, &work);
                let ns = measure::run(&[&*single, &ceiling, &*yardstick], &work, budget).ns;
                for (method, ns) in [name_of_batch, "by hand"].iter().zip(&ns) {
                    println!("{name:12}{method:12}{:>10.1}{:>10.1}", ns[2], ns[3]);
                }
                println!("{name:12}{:12}{:>10.2}{:>10.2}", "times", ns[0][2] / ns[1][2], ns[0][3] / ns[1][3]);
                for (group, size) in groups[first..].iter_mut().zip([2, 3]) {
                    group.bars.push(Some(ns[2][size] / ns[0][size]));
                    group.ceiling = Some(ns[2][size] / ns[1][size]);
                }
            }
        }
        if let Some(file) = super::picture::file() {
            draw(&groups, &file);
        }
    }

    /// Draws the picture into a file.
    fn draw(groups: &[Group], file: &str) {
        let series = ["batch", "batch, unit preserved"].map(String::from);
        let title = "Batches of 64 and 1,024, and hand-written code: times as fast as unoptimised code";
        let plot = Plot { title, one: "unoptimised", series: &series, groups, ceilings: Some("by hand") };
        super::picture::draw(&plot, file);
    }

    /// Checks that both give the same bits.
    fn check(name: &str, batch: &dyn Kernel, ceiling: &dyn Kernel, work: &measure::Workload) {
        let outputs = [batch, ceiling].map(|kernel| {
            let mut outputs = work.places();
            work.batch(&mut Unit::new(), kernel, work.vertices(), &mut outputs);
            outputs.as_flattened().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        });
        let differs = outputs[0].iter().zip(&outputs[1]).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{name}: the first float that differs");
    }
}
