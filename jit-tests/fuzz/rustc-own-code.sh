#!/bin/sh
# A RUSTC_WRAPPER: coverage and debug assertions for the project's own crates, none for what they depend on.
#
# Most of the time of `words` is Cranelift's, and most of that was spent counting Cranelift's branches. Its paths are not
# what the target looks for: each of them that it found went into the corpus and kept it from the project's.
rustc=$1
shift
case " $* " in
    *" --crate-name picajit "* | *" --crate-type bin "*) exec "$rustc" "$@" ;;
esac
# Rotates the arguments once through, so that those with blanks in them stay whole.
n=$#
while [ "$n" -gt 0 ]; do
    arg=$1
    shift
    n=$((n - 1))
    case $arg in
        -Cpasses=sancov-module | -Cllvm-args=-sanitizer-coverage-* | -Cdebug-assertions | -Ccodegen-units=1) ;;
        *) set -- "$@" "$arg" ;;
    esac
done
exec "$rustc" "$@"
