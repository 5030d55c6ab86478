//! The playground: assemble, run and trace PICA200 shaders in a browser, offline.
//!
//! Compiled for WebAssembly it is the module of the page: a request and its answer are UTF-8 text in
//! the module's memory. Compiled for this machine it is the command that puts a module into the page:
//!
//! ```sh
//! playground MODULE.wasm PAGE.html
//! ```
//!
//! `.ci/playground` does both.

#[cfg(target_family = "wasm")]
mod abi;

#[cfg(not(target_family = "wasm"))]
#[path = "../../src/bin/picajit/html.rs"]
mod html;

#[cfg(target_family = "wasm")]
fn main() {}

#[cfg(not(target_family = "wasm"))]
fn main() -> std::process::ExitCode {
    const SOURCE: &str = include_str!("example.pica");
    const VALUES: &str = include_str!("values.txt");
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [module, page] = &arguments[..] else {
        eprintln!("usage: playground MODULE.wasm PAGE.html");
        return std::process::ExitCode::from(2);
    };
    let written = std::fs::read(module).and_then(|module| {
        let text = html::playground(&module, SOURCE, VALUES);
        std::fs::write(page, &text).map(|()| text.len())
    });
    match written {
        Ok(bytes) => {
            println!("{}: {bytes} bytes", page.display());
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
