// Runs a program for WASI: node .ci/wasi.mjs PROGRAM ARGUMENT...
//
// The program sees the folders of WASI_FOLDERS, separated by colons, under their own names, and the whole environment.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...args] = process.argv.slice(2);
const folders = (process.env.WASI_FOLDERS ?? "").split(":").filter((folder) => folder !== "");
const wasi = new WASI({
    version: "preview1",
    args: [program, ...args],
    env: process.env,
    preopens: Object.fromEntries(folders.map((folder) => [folder, folder])),
    returnOnExit: true,
});
const module = await WebAssembly.compile(await readFile(program));
const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport });
process.exitCode = wasi.start(instance);
