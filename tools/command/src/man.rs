//! `picajit man`: a verb -> its page of the manual; or all pages -> files of a folder.

use crate::display::{count, path_name};
use crate::output_path::WriteError;
use crate::{Cli, Status, VerbResult};
use clap::CommandFactory;
use clap_mangen::Man;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  picajit man lint | man -l -
  picajit man -o ~/.local/share/man/man1")]
pub struct Args {
    /// A verb; without one, the page of the command
    #[arg(value_name = "VERB")]
    verb: Option<String>,
    /// Folder to write all pages to
    #[arg(short, long, value_name = "FOLDER", conflicts_with = "verb")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    let mut command = Cli::command();
    command.build();
    if let Some(folder) = &args.output {
        let pages: Vec<Man> = std::iter::once(&command)
            .chain(command.get_subcommands().filter(|verb| verb.get_name() != "help"))
            .map(|command| Man::new(command.clone()))
            .collect();
        std::fs::create_dir_all(folder).map_err(|error| WriteError { name: path_name(folder), error })?;
        for page in &pages {
            let path = folder.join(page.get_filename());
            let written = std::fs::File::create(&path).and_then(|mut file| page.render(&mut file));
            written.map_err(|error| WriteError { name: path_name(&path), error })?;
        }
        writeln!(out, "{}: {}", path_name(folder), count(pages.len(), "page"))?;
        return Ok(Status::Fine);
    }
    let command = match &args.verb {
        Some(name) => {
            let missing = || format!("there is no verb `{name}`\nhelp: `picajit --help` lists all");
            command.find_subcommand(name).cloned().ok_or_else(missing)?
        }
        None => command,
    };
    Man::new(command).render(out)?;
    Ok(Status::Fine)
}
