#!/bin/sh
# A RUSTC_WRAPPER: coverage and debug assertions for the project's own crates, none for their dependencies.
#
# `words` spends most of its time in Cranelift, and with coverage most of that in counting Cranelift's branches. New paths in
# Cranelift also enter the corpus and divert libFuzzer from the project's own code.
rustc=$1
shift
case " $* " in
    *" --crate-name picajit "* | *" --crate-name picajit_"* | *" --crate-type bin "*) exec "$rustc" "$@" ;;
esac
# Rotates the arguments once through, so that arguments with blanks stay whole.
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
