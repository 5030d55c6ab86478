#!/bin/sh
# Mutation testing: applies one small change at a time and counts the changes that make a test fail.
#
#     jit-tests/mutants.sh [SIZE [SEED]]        about SIZE changes (200), another sample for each SEED (0, 1, 2, ...)
#
# The changes come from cargo-mutants (`cargo install cargo-mutants --locked`; this script installs nothing): a function
# returns a constant, an operator becomes another one, a match arm or a guard is removed. All changes, in source order, are
# dealt round-robin into shards of SIZE changes; the sample is shard number SEED, so the same sources give the same sample.
# Changes are applied to a copy of the files in git, below target/mutants.
#
# Prints the missed changes and the share of caught ones. A change that does not compile is not counted. A change that makes
# a test run too long (five times as long as without it, at least 30 s) counts as caught.
set -eu
cd "$(dirname "$0")/.."

size=${1:-200}
seed=${2:-0}
out=$PWD/target/mutants
tree=$out/tree
export CARGO_TARGET_DIR="$out/build"    # dependencies are built once for all runs
export PICAJIT_CORPUS=/nonexistent      # the same tests on every machine

if ! cargo mutants --version >/dev/null 2>&1; then
    echo "cargo-mutants is missing: cargo install cargo-mutants --locked" >&2
    exit 2
fi

rm -rf "$tree" "$out"/meaning-* "$out"/recompiler-*
mkdir -p "$tree"
git ls-files -z | tar --null -T - -cf - | tar -xmf - -C "$tree"
cd "$tree"

# Two parts, so that sources without native code are tested without it: the meaning of instructions on the interpreter, the
# recompiler on all engines.
meaning="src/isa/numeric.rs src/isa/float24.rs src/isa/elementary.rs src/isa/flow.rs src/isa/decode.rs src/interp.rs"
recompiler="src/ir/*.rs src/ir/analysis/*.rs src/jit/emit/*.rs src/jit/vertex/*.rs src/jit/batch/*.rs src/jit/runtime/*.rs"

# Files -> arguments that select them.
choose() {
    for file in $1; do printf -- '--file %s ' "$file"; done
}

# A file of changes' names, one a line -> a regular expression that matches exactly these.
exactly() {
    escaped=$(sed 's/[][\\.*^$+?(){}|]/\\&/g' "$1" | tr '\n' '|')
    echo "^(${escaped%|})\$"
}

# shellcheck disable=SC2046
total=$(cargo mutants --list $(choose "$meaning $recompiler") | wc -l)
shards=$(((total + size - 1) / size))
shard=$((seed % shards))
echo "$total possible changes; testing shard $shard of $shards"

# $out/STEP, features, arguments for cargo-mutants...
mutate() {
    step=$out/$1 features=$2
    shift 2
    mkdir -p "$step"
    # Missed changes and timeouts are results, not failures: exit codes 2 and 3.
    cargo mutants --in-place --output "$step" --profile mutants --no-default-features --features "$features" \
        --no-shuffle --colors never --minimum-test-timeout 30 "$@" || [ $? -le 3 ]
}

# Part, files, features, arguments for the tests. -C selects the built and the run tests.
#
# Step 1 is the unit tests, which build faster and catch most changes. Step 2 is the text suite, for the missed ones.
run() {
    # shellcheck disable=SC2046,SC2086
    mutate "$1-1" "$3" $(choose "$2") --shard "$shard/$shards" --sharding round-robin -C --lib -- -- $4
    missed=$out/$1-1/mutants.out/missed.txt
    [ -s "$missed" ] || return 0
    # shellcheck disable=SC2046,SC2086
    mutate "$1-2" "$3" $(choose "$2") --re "$(exactly "$missed")" -C --test -C jit-tests -- -- $4
}

# Skips slow tests of the assembler and the encoder, and tests that don't run the recompiler.
run meaning "$meaning" "" "--skip text:: --skip encode_after_decode"
run recompiler "$recompiler" jit \
    "--skip text:: --skip isa:: --skip container:: --skip [interp] --skip picasso/ --skip reject/"

# Kind, steps -> changes of that kind.
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
echo "missed:"
missed
echo
echo "sample $((viable + unviable)), viable $viable: caught $caught, timeouts $timeouts, missed $missed;" \
    "$(awk "BEGIN { printf \"%.1f\", 100 * ($caught + $timeouts) / $viable }") % caught"
