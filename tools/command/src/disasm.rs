//! `picajit disasm`: a shader -> assembly text, a listing of its words, or a compilation stage; the
//! code of a Mali shader -> its fields.

use crate::c_arrays;
use crate::display::path_name;
use crate::foreign::{self, Content, Foreign, Reading};
use crate::gpu_code::{self, Language, Surroundings};
use crate::jit_or_stub::{self, Making, NoBatchCode, Shape};
use crate::load::{self, LoadError, Loaded};
use crate::{Status, VerbResult};
use picajit::isa::numeric::Precision;
use picajit::isa::{Inst, Pc};
use picajit::text::disasm::disassemble_with_places;
use picajit_containers::mbs::{Mbs, code};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Shader file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Entry point, counted from 0; without it the whole file for text, inst and words, and entry 0
    /// for other stages
    #[arg(long, value_name = "N")]
    entry: Option<usize>,
    /// Stage to print
    #[arg(long, value_enum, default_value_t = PrintedStage::Text)]
    stage: PrintedStage,
    /// Target CPU of clif and host [default: this machine's]
    #[arg(long, value_name = "CPU", value_parser = jit_or_stub::TARGETS)]
    target: Option<String>,
    /// Shape of the code of clif and host
    #[arg(long, value_enum, default_value_t)]
    shape: Shape,
    /// Number format of results: f32, f24-nearest or f24-zero
    #[arg(long, value_name = "FORMAT", default_value_t)]
    precision: Precision,
    /// What surrounds the code of spirv and glsl
    #[arg(long, value_enum, default_value_t)]
    interface: Surroundings,
    /// Language of glsl
    #[arg(long, value_enum, default_value_t)]
    dialect: Language,
    /// Print a JSON object with the text, or with one object for each word (inst)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PrintedStage {
    /// Assembly that assembles back to the same words
    Text,
    /// Every word with its descriptor and its meaning
    Inst,
    /// Code, operand descriptors and constants as arrays for C, and the addresses of entries
    Words,
    /// Blocks and their edges
    Cfg,
    /// The optimised values
    Ssa,
    /// Cranelift's input
    Clif,
    /// Machine code
    Host,
    /// Code for a Vulkan device, as text
    Spirv,
    /// Code for a GPU as GLSL
    Glsl,
}

/// An unavailable stage.
#[derive(Debug)]
struct StageUnavailable(NoBatchCode);

impl fmt::Display for StageUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            NoBatchCode::Unsupported(why) => {
                write!(f, "no native code: {why}\nhelp: --stage text and --stage inst always work")
            }
            #[cfg(feature = "jit")]
            why => write!(f, "batches run in sequence: {why}\nhelp: --shape vec4 prints the code for one vertex"),
        }
    }
}

impl std::error::Error for StageUnavailable {}

/// The code of a Mali shader, by the fields of its words. Nothing else of it can be shown.
fn mali(args: &Args, mbs: &Mbs) -> Result<String, String> {
    if args.stage != PrintedStage::Text {
        return Err("the words of Mali shaders have no other form\nhelp: --stage text prints them".into());
    }
    let mut text = String::new();
    for (n, program) in mbs.programs().enumerate().filter(|(n, _)| args.entry.is_none_or(|only| only == *n)) {
        let core = program.core_name().map_or_else(|| format!("core {}", program.core), Into::into);
        text += &format!("; program {n} ({}), {core}\n", program.stage);
        text += &code::disassemble(program.stage, program.code().unwrap_or_default());
    }
    if text.is_empty() { Err("the file has no such program".into()) } else { Ok(text) }
}

pub fn run(args: &Args, out: &mut dyn Write) -> VerbResult {
    if let Some(Foreign { content: Content::Mbs(mbs), .. }) = foreign::open(&args.file, Reading::default())? {
        let name = path_name(&args.file);
        let text = mali(args, &mbs).map_err(|message| format!("{name}: {message}"))?;
        if args.json {
            let object =
                json!({ "file": args.file.display().to_string(), "entry": args.entry, "stage": "text", "text": text });
            writeln!(out, "{object:#}")?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        return Ok(Status::Fine);
    }
    let loaded = load::load(&args.file)?;
    if args.stage == PrintedStage::Inst {
        listing(args, &loaded, out)?;
        return Ok(Status::Fine);
    }
    let text = text(args, &loaded)?;
    if args.json {
        let stage = format!("{:?}", args.stage).to_lowercase();
        // Text and inst are of the whole file unless an entry is named; other stages are of one
        // entry.
        let entry = if matches!(args.stage, PrintedStage::Text | PrintedStage::Words) {
            args.entry
        } else {
            Some(args.entry.unwrap_or(0))
        };
        let object = json!({ "file": loaded.name, "entry": entry, "stage": stage, "text": text });
        writeln!(out, "{object:#}")?;
    } else {
        out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            writeln!(out)?;
        }
    }
    Ok(Status::Fine)
}

fn text(args: &Args, loaded: &Loaded) -> Result<String, Box<dyn std::error::Error>> {
    if args.stage == PrintedStage::Text {
        let mut shbin = loaded.shbin.clone();
        if let Some(n) = args.entry {
            shbin.dvles = vec![loaded.entry(n)?.dvle.clone()];
        }
        let words = 0..loaded.program.code().len() as Pc;
        let places: Option<Vec<_>> = words.map(|pc| loaded.object_line(pc)).collect();
        return Ok(disassemble_with_places(&shbin, &places.unwrap_or_default()));
    }
    if args.stage == PrintedStage::Words {
        let entries = match args.entry {
            Some(n) => vec![loaded.entry(n)?],
            None => loaded.entries.iter().collect(),
        };
        return Ok(c_arrays::definitions(loaded, &entries));
    }
    let entry = loaded.entry(args.entry.unwrap_or(0))?;
    if matches!(args.stage, PrintedStage::Spirv | PrintedStage::Glsl) {
        let code = gpu_code::of(&loaded.program, entry.entry, args.precision, args.interface)?;
        return Ok(match args.stage {
            PrintedStage::Spirv => gpu_code::spirv(&code),
            _ => gpu_code::glsl(&code, args.dialect),
        });
    }
    let making = Making { target: args.target.as_deref(), shape: args.shape, precision: args.precision };
    let stages = jit_or_stub::explain(&loaded.program, entry.entry, making).map_err(StageUnavailable)?;
    Ok(match args.stage {
        PrintedStage::Cfg => stages.cfg,
        PrintedStage::Ssa => stages.ssa,
        PrintedStage::Clif => stages.clif,
        _ => stages.host,
    })
}

/// One word of the listing.
struct ListedWord {
    pc: Pc,
    word: u32,
    /// Number and value of the operand descriptor.
    descriptor: Option<(u8, u32)>,
    text: String,
    /// Entries that begin here.
    entries: Vec<usize>,
    /// File and line of an object's word.
    place: Option<String>,
}

fn listing(args: &Args, loaded: &Loaded, out: &mut dyn Write) -> Result<(), Box<dyn std::error::Error>> {
    let lines = lines(args.entry, loaded)?;
    if args.json {
        let word = |l: &ListedWord| {
            let descriptor = l.descriptor.map(|(n, d)| json!({ "index": n, "word": format!("{d:08x}") }));
            let mut json = json!({
                "pc": l.pc,
                "word": format!("{:08x}", l.word),
                "descriptor": descriptor,
                "text": l.text,
            });
            if let Some(place) = &l.place {
                json["source"] = json!(place);
            }
            json
        };
        let words: Vec<Value> = lines.iter().map(word).collect();
        let object = json!({ "file": loaded.name, "entry": args.entry, "stage": "inst", "words": words });
        writeln!(out, "{object:#}")?;
    } else {
        print(loaded, &lines, out)?;
    }
    Ok(())
}

/// All words, or those that entry `only` reaches.
fn lines(only: Option<usize>, loaded: &Loaded) -> Result<Vec<ListedWord>, LoadError> {
    let program = &loaded.program;
    let pcs = match only {
        Some(n) => picajit_lint::survey::survey(program, loaded.entry(n)?.entry).reachable,
        None => (0..program.code().len() as Pc).collect(),
    };
    let line = |pc: Pc| {
        let word = program.code()[usize::from(pc)];
        let inst = program.inst(pc).expect("a listed pc is inside the code");
        let entries = loaded.entries.iter().filter(|e| e.entry.pc == pc).map(|e| e.index);
        ListedWord {
            pc,
            word,
            descriptor: Inst::opdesc_index(word).map(|n| (n, program.opdesc(n))),
            text: inst.to_string(),
            entries: entries.filter(|&n| only.is_none_or(|o| o == n)).collect(),
            place: loaded.object_place(pc),
        }
    };
    Ok(pcs.into_iter().map(line).collect())
}

fn print(loaded: &Loaded, lines: &[ListedWord], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  pc  word      descriptor    instruction")?;
    for line in lines {
        for &n in &line.entries {
            writeln!(out, "; entry {n} ({})", loaded.entries[n].entry.stage)?;
        }
        let descriptor = line.descriptor.map_or(String::new(), |(n, d)| format!("{n:>3} {d:08x}"));
        let place = line.place.as_ref().map_or(String::new(), |place| format!("  {place}"));
        let text = if place.is_empty() { line.text.clone() } else { format!("{:<40}", line.text) };
        writeln!(out, "{:>4}  {:08x}  {descriptor:<12}  {text}{place}", line.pc, line.word)?;
    }
    Ok(())
}
