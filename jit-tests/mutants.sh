#!/bin/sh
# Changes the sources a little, one change at a time, and counts how many changes make a test fail.
#
#     jit-tests/mutants.sh [SIZE [SEED]]        about SIZE changes (200), another sample for each SEED (0, 1, 2, ...)
#
# The changes are those of cargo-mutants (`cargo install cargo-mutants --locked`; nothing is installed from here): a function
# that returns a constant, an operator that became another one, a match arm or a guard that is gone. All of them, in the
# order of the sources, are dealt out to as many hands as give SIZE changes each; the sample is hand number SEED, so the
# same sources give the same sample. Changes are made in a copy of what git has, below target/mutants.
#
# Prints the changes that no test noticed and the share of those that one did. A change that does not compile counts for
# nothing, one that makes a test run too long (five times as long as without it, 30 s at least) counts as noticed.
set -eu
cd "$(dirname "$0")/.."

size=${1:-200}
seed=${2:-0}
out=$PWD/target/mutants
tree=$out/tree
export CARGO_TARGET_DIR="$out/build"    # dependencies are built once for all runs
export PICAJIT_CORPUS=/nonexistent      # the same tests for everybody

if ! cargo mutants --version >/dev/null 2>&1; then
    echo "cargo-mutants is missing: cargo install cargo-mutants --locked" >&2
    exit 2
fi

rm -rf "$tree" "$out"/meaning-* "$out"/recompiler-*
mkdir -p "$tree"
git ls-files -z | tar --null -T - -cf - | tar -xmf - -C "$tree"
cd "$tree"

# Two parts, so that what needs no native code is tested without it: the meaning of instructions on the interpreter, the
# recompiler on all engines.
meaning="src/isa/numeric.rs src/isa/narrow.rs src/isa/elementary.rs src/isa/flow.rs src/isa/decode.rs src/interp.rs"
recompiler="src/ir/*.rs src/jit/lower.rs src/jit/memory.rs src/jit/math.rs src/jit/narrow.rs src/jit/dots.rs
    src/jit/shape.rs src/jit/elementary.rs src/jit/speculate.rs src/jit/lanes.rs src/jit/lanes/*.rs"

# Files -> arguments that choose them.
choose() {
    for file in $1; do printf -- '--file %s ' "$file"; done
}

# A file of changes' names, one a line -> a regular expression that matches these alone.
exactly() {
    escaped=$(sed 's/[][\\.*^$+?(){}|]/\\&/g' "$1" | tr '\n' '|')
    echo "^(${escaped%|})\$"
}

# shellcheck disable=SC2046
total=$(cargo mutants --list $(choose "$meaning $recompiler") | wc -l)
hands=$(((total + size - 1) / size))
hand=$((seed % hands))
echo "$total changes are possible; hand $hand of $hands is tried"

# $out/STEP, features, arguments for cargo-mutants...
mutate() {
    step=$out/$1 features=$2
    shift 2
    mkdir -p "$step"
    # What is missed and what takes too long are results, not failures: exit codes 2 and 3.
    cargo mutants --in-place --output "$step" --profile mutants --no-default-features --features "$features" \
        --no-shuffle --colors never --minimum-test-timeout 30 "$@" || [ $? -le 3 ]
}

# Part, files, features, arguments for the tests. -C chooses what is built as well as what is run.
#
# Step 1 is the unit tests, which are built faster and notice most. Step 2 is the text suite, for what they missed.
run() {
    # shellcheck disable=SC2046,SC2086
    mutate "$1-1" "$3" $(choose "$2") --shard "$hand/$hands" --sharding round-robin -C --lib -- -- $4
    missed=$out/$1-1/mutants.out/missed.txt
    [ -s "$missed" ] || return 0
    # shellcheck disable=SC2046,SC2086
    mutate "$1-2" "$3" $(choose "$2") --re "$(exactly "$missed")" -C --test -C jit-tests -- -- $4
}

# Left out are slow tests of the assembler and the encoder, and those that run none of the recompiler.
run meaning "$meaning" "" "--skip text:: --skip encode_after_decode"
run recompiler "$recompiler" jit \
    "--skip text:: --skip isa:: --skip container:: --skip [interp] --skip picasso/ --skip reject/"

# Kind, steps -> those changes.
list() {
    for step in $2; do
        if [ -f "$out/$step/mutants.out/$1.txt" ]; then cat "$out/$step/mutants.out/$1.txt"; fi
    done
}
missed() {
    for part in meaning recompiler; do
        if [ -d "$out/$part-2" ]; then list missed $part-2; else list missed $part-1; fi
    done
}
steps="meaning-1 meaning-2 recompiler-1 recompiler-2"
caught=$(list caught "$steps" | wc -l) timeouts=$(list timeout "$steps" | wc -l)
unviable=$(list unviable "$steps" | wc -l) missed=$(missed | wc -l)
viable=$((caught + timeouts + missed))
echo
echo "not noticed:"
missed
echo
echo "sample $((viable + unviable)), viable $viable: caught $caught, timeouts $timeouts, missed $missed;" \
    "$(awk "BEGIN { printf \"%.1f\", 100 * ($caught + $timeouts) / $viable }") % noticed"
