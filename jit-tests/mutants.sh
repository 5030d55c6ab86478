#!/bin/sh
# Changes the sources a little, one change at a time, and counts how many changes make a test fail.
#
#     jit-tests/mutants.sh [SIZE [SEED]]        about SIZE changes (200), another sample for each SEED (0, 1, 2, ...)
#
# The changes are those of cargo-mutants (`cargo install cargo-mutants --locked`; nothing is installed from here): a function
# that returns a constant, an operator that became another one, a match arm or a guard that is gone. All of them, in the
# order of the sources, are dealt out to as many hands as give SIZE changes each; the sample is hand number SEED, so the
# same sources give the same sample. Each change is built and tested in a copy of the tree, below target/mutants.
#
# Prints the changes that no test noticed and the share of those that one did. A change that does not compile counts for
# nothing, one that makes a test run too long (five times as long as without it, 30 s at least) counts as noticed.
set -eu
cd "$(dirname "$0")/.."

size=${1:-200}
seed=${2:-0}
out=$PWD/target/mutants
export CARGO_TARGET_DIR="$out/build"    # dependencies are built once for all runs
export PICAJIT_CORPUS=/nonexistent      # the same tests for everybody

if ! cargo mutants --version >/dev/null 2>&1; then
    echo "cargo-mutants is missing: cargo install cargo-mutants --locked" >&2
    exit 2
fi

# Two parts, so that what needs no native code is tested without it: the meaning of instructions on the interpreter, the
# recompiler on all engines.
meaning="src/isa/numeric.rs src/isa/narrow.rs src/isa/elementary.rs src/isa/flow.rs src/isa/decode.rs src/interp.rs"
recompiler="src/ir/*.rs src/jit/lower.rs src/jit/memory.rs src/jit/math.rs src/jit/narrow.rs src/jit/dots.rs
    src/jit/shape.rs src/jit/elementary.rs src/jit/speculate.rs"

# files of a part -> arguments that choose them
choose() {
    for file in $1; do printf -- '--file %s ' "$file"; done
}

# shellcheck disable=SC2046
total=$(cargo mutants --list $(choose "$meaning $recompiler") | wc -l)
hands=$(((total + size - 1) / size))
hand=$((seed % hands))
echo "$total changes are possible; hand $hand of $hands is tried"

# A file of mutants' names, one a line -> a regular expression that matches these alone.
exactly() {
    escaped=$(sed 's/[][\\.*^$+?(){}|]/\\&/g' "$1" | tr '\n' '|')
    echo "^(${escaped%|})\$"
}

# $out/STEP, arguments for cargo-mutants... Missed changes and timeouts are results, not failures: exit codes 2 and 3.
mutate() {
    step=$out/$1
    shift
    mkdir -p "$step"
    cargo mutants --output "$step" --profile mutants --no-shuffle --colors never --minimum-test-timeout 30 \
        --no-default-features "$@" || [ $? -le 3 ]
}

# name, files, features, arguments for the tests...: first the unit tests, which build faster and notice most, then the text
# suite for what is left.
run() {
    name=$1 files=$2 features=$3
    shift 3
    # shellcheck disable=SC2046
    mutate "$name-1" --features "$features" $(choose "$files") --shard "$hand/$hands" --sharding round-robin \
        -- --lib -- "$@"
    missed=$out/$name-1/mutants.out/missed.txt
    [ -s "$missed" ] || return 0
    mutate "$name-2" --features "$features" --re "$(exactly "$missed")" -- --test jit-tests -- "$@"
}
rm -rf "$out"/meaning-* "$out"/recompiler-*
run meaning "$meaning" ""
# Left out are tests that run none of the recompiler.
run recompiler "$recompiler" jit \
    --skip text:: --skip isa:: --skip container:: --skip '[interp]' --skip picasso/ --skip reject/

# kind, steps -> those changes
list() {
    for step in $2; do cat "$out"/$step/mutants.out/"$1".txt 2>/dev/null || true; done
}
both="meaning-1 meaning-2 recompiler-1 recompiler-2"
# What the last step that saw them missed.
missed_list() {
    for part in meaning recompiler; do
        if [ -d "$out/$part-2/mutants.out" ]; then list missed $part-2; else list missed $part-1; fi
    done
}
caught=$(list caught "$both" | wc -l) timeouts=$(list timeout "$both" | wc -l)
unviable=$(list unviable "$both" | wc -l) missed=$(missed_list | wc -l)
viable=$((caught + timeouts + missed))
echo
echo "not noticed:"
missed_list
echo
echo "sample $((viable + unviable)), viable $viable: caught $caught, timeouts $timeouts, missed $missed;" \
    "$(awk "BEGIN { printf \"%.1f\", 100 * ($caught + $timeouts) / $viable }") % noticed"
