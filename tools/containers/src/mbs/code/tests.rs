//! Code of both processors through text.

use super::*;
use crate::mbs::Mbs;
use crate::testing::third_party;

fn comes_back(stage: MbsStage, code: &[u8]) -> String {
    let text = disassemble(stage, code);
    assert_eq!(assemble(stage, &text).as_deref(), Ok(code), "{text}");
    text
}

/// Each bit of an instruction of the vertex processor, alone and missing, is in the text.
#[test]
fn every_bit_of_a_vertex_instruction_is_kept() {
    for n in 0..128 {
        for base in [0u128, u128::MAX, 0x5A5A_1234_9ABC_0F0F_7777_3333_8001_FE01] {
            comes_back(MbsStage::Vertex, &(base ^ 1 << n).to_le_bytes());
        }
    }
    let nothing = assemble(MbsStage::Vertex, "flags=normal").unwrap();
    assert_eq!(comes_back(MbsStage::Vertex, &nothing), "flags=normal\n");
    let text = "mul0.a=reg0.x mul0.b=load.y store0.x=mul0 mul.op=complex1 flags=branch target=255\nword=0x00000001\n";
    let code = assemble(MbsStage::Vertex, &format!("; a comment\n\n{text}")).unwrap();
    assert_eq!(comes_back(MbsStage::Vertex, &code), text);
}

/// Each bit of a control word and of each unit is in the text; what is no instruction is words.
#[test]
fn every_bit_of_a_fragment_instruction_is_kept() {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8 ^ state << 11
    };
    for _ in 0..2000 {
        let code: Vec<u8> = (0..40).flat_map(|_| random().to_le_bytes()).collect();
        comes_back(MbsStage::Fragment, &code);
    }
    let text = "length=4 stop=1 bit6=1 next=3 prefetch=1 high=33 unit0=0x3ffffffff unit5=0xfffffffffff\n";
    let code = assemble(MbsStage::Fragment, text).unwrap();
    assert_eq!((code.len(), comes_back(MbsStage::Fragment, &code).as_str()), (16, text));
    assert_eq!(disassemble(MbsStage::Fragment, &[0; 4]), "word=0x00000000\n");
}

#[test]
fn errors_name_the_line() {
    let error = |stage, text: &str| {
        let error = assemble(stage, text).unwrap_err();
        (error.offset, error.message)
    };
    for (stage, text, line, message) in [
        (MbsStage::Vertex, "target=1\ntarget=256", 2, "`256` has more than 8 bits"),
        (MbsStage::Vertex, "mul0.a=reg9.x", 1, "`reg9.x` is no number"),
        (MbsStage::Vertex, "mul9=1", 1, "no field is called `mul9`"),
        (MbsStage::Vertex, "target", 1, "`target` has no `=`"),
        (MbsStage::Fragment, "length=1\nlength=2 unit0=1 unit0=2", 2, "`unit0` is given twice"),
        (MbsStage::Fragment, "length=2 unit0=1", 1, "`length` is 2, and the units take 3 words"),
        (MbsStage::Fragment, "length=1 unit12=1", 1, "no field is called `unit12`"),
    ] {
        assert_eq!(error(stage, text), (line, message.to_string()), "{text}");
    }
}

/// The lengths of real instructions are those of their units.
#[test]
fn code_of_the_corpus_has_no_words_left() {
    for (name, bytes) in third_party::files("mbs") {
        for program in Mbs::parse(&bytes).unwrap().programs() {
            let text = comes_back(program.stage, program.code().unwrap());
            assert!(!text.contains("word="), "{name}\n{text}");
            assert_eq!(Some(text.lines().count()), program.instructions(), "{name}");
        }
    }
}
