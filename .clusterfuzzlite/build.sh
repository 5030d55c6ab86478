#!/bin/bash
# Builds every fuzz target of jit-tests/fuzz, with seeds, for ClusterFuzzLite: SRC=FOLDER OUT=FOLDER build.sh
#
# SRC has this repository as `picajit`. OUT receives each target, its options, and its seeds as TARGET_seed_corpus.zip.
# PICAJIT_FUZZ_FLAGS are further arguments of `cargo fuzz build`: `-s none` where there is no nightly toolchain.
set -eu
cd "$SRC/picajit"
fuzz=jit-tests/fuzz
read -ra flags <<< "${PICAJIT_FUZZ_FLAGS:-}"

# Coverage and debug assertions for this project alone, not for Cranelift; see jit-tests/fuzz/README.md.
[[ " ${flags[*]} " = *" --no-default-features "* ]] || export RUSTC_WRAPPER=$PWD/$fuzz/rustc-own-code.sh
cargo fuzz build --fuzz-dir $fuzz -O -a "${flags[@]}"

# Seeds come from the project's tests. A sanitizer in RUSTFLAGS is of no use here.
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
env -u RUSTC_WRAPPER RUSTFLAGS= cargo run --quiet --manifest-path $fuzz/Cargo.toml --no-default-features --example seeds -- "$seeds"

for target in $(cargo fuzz list --fuzz-dir $fuzz); do
    binary=$fuzz/target/x86_64-unknown-linux-gnu/release/$target
    # Without the feature `jit` some targets don't exist.
    [ -e "$binary" ] || [[ " ${flags[*]} " = *" --no-default-features "* ]] || { echo "error: no target $target" >&2; exit 1; }
    [ -e "$binary" ] || continue
    cp "$binary" "$OUT/"
    case $target in
        mbs | vbc | metallib) longest=16384 ;;
        *) longest=4096 ;;
    esac
    printf '[libfuzzer]\nmax_len = %d\ntimeout = 10\nrss_limit_mb = 2048\n' $longest > "$OUT/$target.options"
    if [ -d "$seeds/$target" ]; then
        (cd "$seeds/$target" && find . -type f -print | sort | zip -q "$OUT/${target}_seed_corpus.zip" -@)
    fi
done
