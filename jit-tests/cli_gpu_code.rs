//! Code for a host's GPU: `disasm --stage spirv` and `--stage glsl`.

use super::{Folder, GEOMETRY, arguments};

#[test]
fn code_for_a_gpu_has_its_promise_or_its_reason() {
    let folder = Folder::new("gpu-code");
    folder.file("a.pica", ".proc main\nmul o0, c4, v1\nend\n.end\n").file("g.pica", GEOMETRY);
    let words = folder.good("disasm a.pica --stage spirv");
    assert!(words.starts_with("; promise: equal bits but for subnormal numbers\n"), "{words}");
    assert!(words.contains("OpEntryPoint Vertex") && words.contains("NoContraction"), "{words}");
    assert!(folder.good("disasm a.pica --stage spirv --interface compute").contains("OpEntryPoint GLCompute"));
    let text = folder.good("disasm a.pica --stage glsl --dialect es --interface position --precision f24-zero");
    assert!(text.starts_with("#version 310 es\n") && text.contains("gl_Position = vec4(o0.x, o0.y, -o0.z, o0.w);"));
    assert!(text.ends_with("// promise: equal bits\n"), "{text}");
    folder.file("b.pica", ".proc main\nadd o0, v0, r0\nmov r0, v0\nend\n.end\n");
    for (file, reason) in [
        ("g.pica", "error: a geometry program has no code for a GPU\nhelp: run it on the CPU\n"),
        ("b.pica", "error: r0.xyzw may hold values of an earlier vertex\nhelp: run the program on the CPU\n"),
    ] {
        let ended = folder.run(arguments("disasm --stage glsl").and(file));
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (2, "", reason));
    }
}

/// Needs a Vulkan driver; without one both verbs say so.
#[cfg(feature = "gpu-tests")]
#[test]
fn entries_run_on_the_machine_s_drivers() {
    let folder = Folder::new("on-gpus");
    folder.file("a.pica", ".proc main\nmul r0, c4, v0\nrcp o0.x, r0.x\nend\n.end\n").file("g.pica", GEOMETRY);
    let compared = folder.run(arguments("diff --gpu --special --vertices 600 a.pica g.pica"));
    let measured = folder.run(arguments("bench --gpu a.pica"));
    if compared.code == 2 {
        assert!(compared.err.starts_with("error: no Vulkan device\nhelp: install a driver"), "{}", compared.err);
        assert_eq!((measured.code, measured.err), (2, compared.err));
        return;
    }
    let lines: Vec<&str> = compared.out.lines().collect();
    let equal = |line: &&str| line.starts_with("a.pica (f32) on ") && line.contains(": 600 vertices, no difference");
    assert!(compared.code == 0 && !lines.is_empty() && lines.iter().all(equal), "{}", compared.out);
    assert!(measured.out.contains("ns/vertex") && measured.out.contains("geometric mean"), "{}", measured.out);
}
