//! Outputs of groups that are made as AoS registers: copies, sums, products with a matrix.

use super::batches::*;
use crate::jit::tests::*;

/// Bodies with AoS outputs.
const AOS_BODIES: [&str; 10] = [
    " mov o0, v0\n mov o1, v1.wzyx\n mov o2, -v2\n mov o3, c3\n mov o4, c4.yyyy\n mov o5, -c5.xxxx\n mov o6, -c6.wzyx\n mov r0, v3",
    " mul o0, c1.zzzz, v0.xyyy\n mul o1, c2, v1\n mul o2, -c3.wzyx, v2\n mul o3, c4.xyxy, -v3\n mov r7, v5\n mul r1, v4, r7\n mul o4, r1, v6.yzwx",
    " mul r0.xyz, c1.wwww, v2.xyzz\n mov r0.w, c2.yyyy\n mov o0, r0\n mov r1.xy, v1\n mov r1.zw, v3.xxxy\n mov o1, r1\n mov r2.yz, c5.xxyy\n
        mov r2.xw, v1.wwww\n add o2, c6, r2",
    " mov r5, v1\n mov r6, v2\n add o0, c1, v0\n add o1, -c2.yyyy, v1\n add o2, r5, -r6\n add o3, -r5, r6\n add o4, -r5, -r6\n mad o5, v0, c3, r5\n
        mad o6, -v0.wzyx, c4, -r6",
    " mov r5, v1\n max o0, c1, v0\n min o1, v0.yyxx, r5\n sge o2, c2.xxxx, v2\n slt o3, v3, r5\n flr o4, v4\n flr o5, c5\n max r0, c6, v0\n min o6, c7, r0",
    // A matrix times an input.
    " mov r0.xyz, v0\n mov r0.w, c9.y\n dp4 o0.x, c0, r0\n dp4 o0.y, c1.wzyx, r0\n dp4 o0.z, -c2, r0\n dp4 o0.w, c3, r0\n
        dp4 r1.x, c4, -v1.yzwx\n dp4 r1.y, -c5, -v1.yzwx\n dp4 r1.z, c6, -v1.yzwx\n dp4 r1.w, c7, -v1.yzwx\n mov o1, r1.wxyz",
    // The same, negated.
    " dp4 r0.x, c0, v0\n dp4 r0.y, c1, v0\n dp4 r0.z, c2, v0\n dp4 r0.w, c3, v0\n mov o0, -r0\n mov r1, -v1\n dp4 o1.x, c0, r1\n dp4 o1.y, c1, r1\n
        dp4 o1.z, c2, r1\n dp4 o1.w, c3, r1\n mov r2.xyz, -v2\n mov r2.w, v2.x\n dp4 o2.x, c4, r2\n dp4 o2.y, c5, r2\n dp4 o2.z, c6, r2\n dp4 o2.w, c7, r2",
    " mov r2.w, c8.x\n mov r2.xyz, v1\n dp3 o0.x, c0, v0\n dp3 o0.y, c1.yyxx, v0\n dp3 o0.z, c2, v0\n mov o0.w, v2.x\n
        dph o1.x, v1, c3\n dph o1.y, v1, -c4\n dph o1.z, v1, c5.wzyx\n dph o1.w, v1, c6\n
        dph o2.x, -r2, c3\n dph o2.y, -r2, c4\n dph o2.z, -r2, c5\n dph o2.w, -r2, c6",
    " mov r0.x, v0\n mov r0.yz, c9\n mov r0.w, c9.x\n dp4 o0.x, c0, r0\n dp4 o0.y, c1, r0\n dp4 o0.z, c2, r0\n dp4 o0.w, c3, r0\n
        mov r1.x, v0.y\n mov r1.yzw, c8\n dp4 o1.x, c4, r1\n dp4 o1.y, -c5, r1\n dp4 o1.w, c7, r1\n mov o1.z, c8.x\n
        mov r1, r0\n dp4 o3.xy, c4, r1\n dp4 o3.zw, c5, r1\n mov r3.x, r0\n max o2, c6, v0",
    // MAX and SGE swallow the NaN of a product, so their operands need a guard, which only SoA code
    // has.
    " mov r5, v1\n mul r0, v0, r5\n max o0, c1, r0\n mov r7, v3\n mul r1, v2, r7\n sge o1, c2, r1\n mul o2, v0, r5",
];

#[test]
fn aos_outputs_have_the_same_bits() {
    for body in AOS_BODIES {
        assert_eq!(same_as_interpreter(&main(body), numbers, ALL_REGISTERS), (ALL, 0));
        // Each output alone.
        for output in 0..7 {
            assert_eq!(same_as_interpreter(&main(body), numbers, (0xFFFF, 1 << output)), (ALL, 0));
        }
    }
}

#[test]
fn aos_outputs_have_guards() {
    // Vertex 5 has infinities, which meet zeros; vertex 9 has correct NaNs.
    let special = |n: usize| {
        let mut v = numbers(n);
        match n {
            5 => v[..7].iter_mut().enumerate().for_each(|(r, v)| v[r % 4] = f32::INFINITY),
            9 => v[..7].iter_mut().enumerate().for_each(|(r, v)| v[r % 4] = f32::NAN),
            14 => v[..7].fill([0.0, -0.0, f32::NEG_INFINITY, f32::from_bits(1)]),
            _ => {}
        }
        v
    };
    let mut bailouts = 0;
    for body in AOS_BODIES {
        let (groups, left) = same_as_interpreter(&main(body), special, ALL_REGISTERS);
        assert_eq!(groups + left, ALL);
        bailouts += left;
    }
    assert!(bailouts > 10, "{bailouts}");
}

#[test]
fn matrices_of_every_kind_times_inputs() {
    // A generator of 32 bits (Knuth, TAOCP 2, 3.3.4); the upper ones are good enough.
    let mut state = 2026u32;
    let mut below = |n: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % n
    };
    let special = |n: usize| {
        // Thirds and sevenths, so that the order of summation changes the bits.
        let mut v = numbers(n).map(|v| v.map(|x| x / 3.0));
        match n {
            6 => v[0] = [f32::INFINITY, 0.0, -0.0, f32::from_bits(1)],
            11 => v[1] = [f32::NAN, f32::NEG_INFINITY, 1.0, 0.0],
            _ => {}
        }
        v
    };
    let mut matrices = 0;
    for _ in 0..300 {
        let mut signed = |swizzled: bool| {
            let swizzle: String = (0..4).map(|_| char::from(b"xxyzw"[below(5) as usize])).collect();
            let sign = if below(4) == 0 { "-" } else { "" };
            (sign, if swizzled && below(2) == 0 { format!(".{swizzle}") } else { String::new() })
        };
        let (factor_sign, factor_swizzle) = signed(true);
        let rows = [(); 4].map(|()| signed(true));
        let (op, factor) =
            (["dp3", "dp4", "dp4", "dph"][below(4) as usize], ["v0", "v1", "r0", "r1"][below(4) as usize]);
        let mut body = String::from(" mov r0.xyz, v0\n mov r0.w, c9.x\n mov r1, c8\n mov r1.yx, v1.wz\n");
        let (to, first) = (["o0", "r2"][below(2) as usize], below(4));
        for (n, (sign, swizzle)) in (first..).zip(rows) {
            let c = char::from(b"xyzw"[n as usize % 4]);
            let (factor, row) =
                (format!("{factor_sign}{factor}{factor_swizzle}"), format!("{sign}c{}{swizzle}", below(6)));
            let [a, b] = if op == "dph" { [&factor, &row] } else { [&row, &factor] };
            body += &format!(" {op} {to}.{c}, {a}, {b}\n");
        }
        body += [" mov r0.x, c1", " mov r2.z, v1\n mov o0, r2", " mov o1, r2.wzyx\n mov o0, r2", " mul o1, c3, r0"]
            [if to == "r2" { 1 + below(2) } else { 3 * below(2) } as usize];
        let (program, entry) = program(&main(&body));
        let cfg = crate::ir::cfg::Cfg::build(&program, entry, Default::default()).expect("small");
        let func = crate::ir::Func::build(&cfg, 100, crate::ir::Form::Ssa);
        matrices += u32::from(crate::jit::batch::policy::tests::has_aos_matrix_product(&func, &RegisterUse::new(&cfg)));
        let uniforms = std::array::from_fn(|n| std::array::from_fn(|k| (n * 4 + k + 1) as f32 / 7.0 - 1.5));
        let (groups, left) = same_with_uniforms(uniforms, &main(&body), special, ALL_REGISTERS);
        assert_eq!(groups + left, ALL, "{body}");
    }
    assert!(matrices > 100, "{matrices}");
}
