//! `examples/vulkan-host`, built with each C++ compiler: recordings whose draws run on the CPU, on the machine's Vulkan
//! drivers, and on both at random, must have the same vertices, images and states.

use crate::{Compiler, ROOT, WARNINGS, compilers, extent, folder, library, prerequisites, ready, skipped};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const SOURCES: [&str; 4] = ["main", "recording", "renderer", "shader_engine"];
/// Random mixtures of each recording.
const MIXTURES: [u64; 2] = [3, 100];

/// The host, built once; `None` without Vulkan's headers and loader.
fn host(compiler: Compiler) -> Option<PathBuf> {
    static HOSTS: Mutex<BTreeMap<&str, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    HOSTS.lock().expect("no build panics").entry(compiler.command).or_insert_with(|| build(compiler)).clone()
}

fn build(compiler: Compiler) -> Option<PathBuf> {
    let (source, probe) = (folder().join("probe-vulkan.cpp"), folder().join("probe-vulkan"));
    std::fs::write(&source, "#include <vulkan/vulkan.h>\nint main() { return vkCreateInstance == nullptr; }\n")
        .expect("written");
    let output = Command::new(compiler.command).arg(&source).arg("-o").arg(&probe).arg("-lvulkan").output();
    if !output.expect("it was found").status.success() {
        skipped("the Vulkan host: no Vulkan headers and loader (Debian: libvulkan-dev)");
        return None;
    }
    let program = folder().join(format!("vulkan-host-{}", compiler.command));
    let example = Path::new(ROOT).join("examples/vulkan-host");
    let mut build = Command::new(compiler.command);
    build.arg("-std=c++20").args(WARNINGS).arg("-Wno-missing-field-initializers").arg("-O1");
    build.arg(format!("-I{ROOT}/include")).args(SOURCES.map(|name| example.join(name).with_extension("cpp")));
    build.arg(library()).args(["-lvulkan", "-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let output = build.output().expect("it was found");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Where Debian has the validation layer.
const LAYER: &str = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";

/// The output of a host that must succeed, watched by the validation layer if that is installed; `None` without a
/// device.
fn run(program: &Path, arguments: &[&str], recordings: &[PathBuf]) -> Option<String> {
    let mut command = Command::new(program);
    if Path::new(LAYER).exists() {
        command.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
    }
    let output = command.args(arguments).args(recordings).output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("Validation Error"), "{arguments:?}: {text}");
    if text == "no Vulkan device\n" {
        skipped("the Vulkan host: no Vulkan device (Debian: mesa-vulkan-drivers)");
        return None;
    }
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

#[test]
fn mixtures_of_cpu_and_gpu_are_equal_on_the_vulkan_drivers() {
    if !ready(true) {
        return;
    }
    let mut recordings = vec![Path::new(ROOT).join("examples/scene/scene.txt")];
    recordings.extend(prerequisites::third_party_files("frames", "txt"));
    let mixtures = extent::amount("PICAJIT_MIXTURES", MIXTURES[0], MIXTURES[1]).to_string();
    for &compiler in compilers().iter().filter(|c| c.cpp) {
        let Some(program) = host(compiler) else { return };
        for precision in ["f32", "f24", "f24z"] {
            let Some(text) = run(&program, &["--check", &mixtures, "--precision", precision], &recordings) else {
                return;
            };
            let equal = text.lines().filter(|line| line.contains(": equal: ")).count();
            assert!(equal >= recordings.len() && equal % recordings.len() == 0, "{precision}: {text}");
            assert!(!text.contains("self-test fails"), "{precision}: {text}");
            println!("{precision}: {equal} recordings on all devices, {mixtures} mixtures");
        }
    }
}

#[test]
fn a_pipeline_takes_over_in_mid_game() {
    if !ready(true) {
        return;
    }
    let recording = [Path::new(ROOT).join("examples/scene/scene.txt")];
    let png = folder().join("scene.png");
    let Some(&compiler) = compilers().iter().find(|c| c.cpp) else { return };
    let Some(program) = host(compiler) else { return };
    let _ = std::fs::remove_file(&png);
    let Some(text) = run(&program, &["--frames", "200", "--png", png.to_str().expect("text")], &recording) else {
        return;
    };
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with("  frame ")).collect();
    let image = |line: &str| line.rsplit(' ').next().expect("a word").to_owned();
    assert_eq!(frames.len(), 200);
    assert!(frames[0].contains(" on the CPU until a pipeline is ready"), "{}", frames[0]);
    assert!(frames[199].contains(": 3 on the GPU, 0 on the CPU until"), "{}", frames[199]);
    assert!(frames.iter().all(|line| image(line) == image(frames[0])), "{text}");
    assert!(
        std::fs::read(png).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() > 4 * 400 * 240)
    );
}
