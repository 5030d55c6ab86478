//! A SPIR-V module -> what its reflection tables must agree with.
//!
//! Instructions are read one by one and dropped. Kept are entry points, decorations, types,
//! constants and variables of the interface.

use super::{Base, ValueType};
use rspirv::binary::{Consumer, ParseAction, Parser};
use rspirv::dr::{Instruction, ModuleHeader, Operand};
use rspirv::spirv::{Decoration, Dim, Op, StorageClass};
use std::collections::HashMap;

/// The instructions that [`Module`] interprets.
const INTERFACE: [Op; 13] = [
    Op::EntryPoint,
    Op::Decorate,
    Op::MemberDecorate,
    Op::Constant,
    Op::Variable,
    Op::TypeInt,
    Op::TypeFloat,
    Op::TypeVector,
    Op::TypeMatrix,
    Op::TypeArray,
    Op::TypePointer,
    Op::TypeStruct,
    Op::TypeImage,
];

/// The parts of a module that matter here.
#[derive(Debug, Default)]
pub struct Module {
    /// Version, as (major, minor).
    pub version: (u8, u8),
    /// Generator word.
    pub generator: u32,
    /// Upper bound of ids.
    pub bound: u32,
    /// Instruction schema, 0.
    pub schema: u32,
    /// Entry points: execution model as SPIR-V names it, and name.
    pub entries: Vec<(String, String)>,
    types: HashMap<u32, Type>,
    constants: HashMap<u32, u32>,
    decorations: HashMap<(u32, Decoration), u32>,
    member_offsets: HashMap<(u32, u32), u32>,
    variables: Vec<(u32, u32, StorageClass)>,
}

#[derive(Debug)]
enum Type {
    Number(Base),
    Vector(u32, u32),
    Matrix(u32, u32),
    Array(u32, u32),
    Pointer(u32),
    Struct(Vec<u32>),
    Image { sampled: u32, is_subpass: bool },
}

/// A variable of an interface: its location, and its type if the tables can express it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The decoration `Location`.
    pub location: u32,
    /// Base type, rows, columns and array length.
    pub shape: Option<(Base, ValueType)>,
}

/// A variable with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The decoration `DescriptorSet`.
    pub set: u32,
    /// The decoration `Binding`.
    pub binding: u32,
    /// Length of its array, if it is one.
    pub array: Option<u32>,
    /// Id of the type without array.
    pub ty: u32,
}

impl Module {
    /// Reads a module. The error is a text: what is wrong and where in the module.
    pub fn parse(bytes: &[u8]) -> Result<Module, String> {
        let mut module = Module::default();
        let word = |n: usize| bytes.get(4 * n..).and_then(|b| b.first_chunk()).map_or(0, |w| u32::from_le_bytes(*w));
        (module.generator, module.schema) = (word(2), word(4));
        if !bytes.len().is_multiple_of(4) {
            return Err(format!("{:#x} bytes are no whole words", bytes.len()));
        }
        let interface = interface(bytes)?;
        Parser::new(&interface, &mut module).parse().map_err(|state| format!("no valid SPIR-V: {state}"))?;
        Ok(module)
    }

    /// Variables with a location, of `Input` or `Output`.
    pub fn located(&self, is_input: bool) -> Vec<Located> {
        let class = if is_input { StorageClass::Input } else { StorageClass::Output };
        let variables = self.variables.iter().filter(|v| v.2 == class);
        let located = variables.filter_map(|&(id, ty, _)| {
            let location = self.decoration(id, Decoration::Location)?;
            Some(Located { location, shape: self.pointee(ty).and_then(|ty| self.shape(ty)) })
        });
        located.collect()
    }

    /// Variables with a descriptor set.
    pub fn descriptors(&self) -> Vec<Descriptor> {
        let described = self.variables.iter().filter_map(|&(id, ty, _)| {
            let set = self.decoration(id, Decoration::DescriptorSet)?;
            let binding = self.decoration(id, Decoration::Binding).unwrap_or(0);
            let ty = self.pointee(ty)?;
            Some(match self.types.get(&ty) {
                Some(Type::Array(element, len)) => {
                    Descriptor { set, binding, array: self.constants.get(len).copied(), ty: *element }
                }
                _ => Descriptor { set, binding, array: None, ty },
            })
        });
        described.collect()
    }

    /// Offsets of a block's members, in order; `None` without a decoration. A block whose only
    /// member is a struct stands for that struct.
    pub fn block_offsets(&self, mut ty: u32) -> Option<Vec<Option<u32>>> {
        let Some(Type::Struct(members)) = self.types.get(&ty) else { return None };
        let mut members = members;
        if let [only] = members[..]
            && let Some(Type::Struct(inner)) = self.types.get(&only)
        {
            (ty, members) = (only, inner);
        }
        Some((0..members.len() as u32).map(|n| self.member_offsets.get(&(ty, n)).copied()).collect())
    }

    /// Number of members of the push constant block.
    pub fn push_constants(&self) -> Option<usize> {
        let block = self.variables.iter().find(|v| v.2 == StorageClass::PushConstant)?;
        Some(self.block_offsets(self.pointee(block.1)?)?.len())
    }

    /// The base type of the subpass input with this index.
    pub fn subpass_input(&self, index: u32) -> Option<Base> {
        self.variables.iter().find_map(|&(id, ty, _)| {
            let Some(Type::Image { sampled, is_subpass: true }) = self.types.get(&self.pointee(ty)?) else {
                return None;
            };
            (self.decoration(id, Decoration::InputAttachmentIndex) == Some(index)).then_some(())?;
            self.shape(*sampled).map(|(base, _)| base)
        })
    }

    fn decoration(&self, id: u32, decoration: Decoration) -> Option<u32> {
        self.decorations.get(&(id, decoration)).copied()
    }

    fn pointee(&self, ty: u32) -> Option<u32> {
        if let Some(Type::Pointer(to)) = self.types.get(&ty) { Some(*to) } else { None }
    }

    /// A numeric type: array of matrix of vector of number, each at most once.
    fn shape(&self, ty: u32) -> Option<(Base, ValueType)> {
        let mut shape = ValueType { base: 0, rows: 1, columns: 1, array: 1 };
        let byte = |n: u32| u8::try_from(n).ok();
        let mut ty = self.types.get(&ty)?;
        if let Type::Array(element, len) = ty {
            shape.array = byte(*self.constants.get(len)?)?;
            ty = self.types.get(element)?;
        }
        if let Type::Matrix(column, n) = ty {
            shape.columns = byte(*n)?;
            ty = self.types.get(column)?;
        }
        if let Type::Vector(element, n) = ty {
            shape.rows = byte(*n)?;
            ty = self.types.get(element)?;
        }
        if let Type::Number(base) = ty { Some((*base, shape)) } else { None }
    }

    fn instruction(&mut self, inst: &Instruction) -> Option<()> {
        let id = |n: usize| match inst.operands.get(n)? {
            Operand::IdRef(id) => Some(*id),
            _ => None,
        };
        let literal = |n: usize| match inst.operands.get(n)? {
            Operand::LiteralBit32(value) => Some(*value),
            _ => None,
        };
        let ty = match inst.class.opcode {
            Op::EntryPoint => {
                let [Operand::ExecutionModel(model), _, Operand::LiteralString(name), ..] = &inst.operands[..] else {
                    return None;
                };
                self.entries.push((format!("{model:?}"), name.clone()));
                return None;
            }
            Op::Decorate => {
                let Operand::Decoration(decoration) = inst.operands.get(1)? else { return None };
                if matches!(
                    decoration,
                    Decoration::Location
                        | Decoration::Binding
                        | Decoration::DescriptorSet
                        | Decoration::InputAttachmentIndex
                ) {
                    self.decorations.insert((id(0)?, *decoration), literal(2)?);
                }
                return None;
            }
            Op::MemberDecorate => {
                if matches!(inst.operands.get(2)?, Operand::Decoration(Decoration::Offset)) {
                    self.member_offsets.insert((id(0)?, literal(1)?), literal(3)?);
                }
                return None;
            }
            Op::Constant => {
                self.constants.insert(inst.result_id?, literal(0)?);
                return None;
            }
            Op::Variable => {
                let Operand::StorageClass(class) = inst.operands.first()? else { return None };
                // Variables of functions belong to no interface.
                if *class != StorageClass::Function {
                    self.variables.push((inst.result_id?, inst.result_type?, *class));
                }
                return None;
            }
            Op::TypeInt => Type::Number(if literal(1)? == 0 { Base::Unsigned } else { Base::Signed }),
            Op::TypeFloat => Type::Number(Base::Float),
            Op::TypeVector => Type::Vector(id(0)?, literal(1)?),
            Op::TypeMatrix => Type::Matrix(id(0)?, literal(1)?),
            Op::TypeArray => Type::Array(id(0)?, id(1)?),
            Op::TypePointer => Type::Pointer(id(1)?),
            Op::TypeStruct => Type::Struct((0..inst.operands.len()).filter_map(id).collect()),
            Op::TypeImage => {
                let is_subpass = matches!(inst.operands.get(1)?, Operand::Dim(Dim::DimSubpassData));
                Type::Image { sampled: id(0)?, is_subpass }
            }
            _ => return None,
        };
        self.types.insert(inst.result_id?, ty);
        None
    }
}

/// The module without the instructions that say nothing about its interface.
///
/// The library indexes past the end of an instruction that ends after the module, so each word
/// count is checked here.
fn interface(bytes: &[u8]) -> Result<Vec<u8>, String> {
    const HEADER: usize = 20;
    let mut out = bytes.get(..HEADER).ok_or("no valid SPIR-V: the header is cut off")?.to_vec();
    let mut at = HEADER;
    while let Some(first) = bytes[at..].first_chunk() {
        let word = u32::from_le_bytes(*first);
        let end = at + 4 * (word >> 16) as usize;
        if end == at || end > bytes.len() {
            return Err(format!(
                "no valid SPIR-V: the instruction at byte {at:#x} of the module has {} words",
                word >> 16
            ));
        }
        if Op::from_u32(word & 0xFFFF).is_some_and(|op| INTERFACE.contains(&op)) {
            out.extend(&bytes[at..end]);
        }
        at = end;
    }
    Ok(out)
}

impl Consumer for Module {
    fn initialize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn finalize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn consume_header(&mut self, header: ModuleHeader) -> ParseAction {
        self.version = header.version();
        self.bound = header.bound;
        ParseAction::Continue
    }

    fn consume_instruction(&mut self, inst: Instruction) -> ParseAction {
        // An instruction that lacks an operand says nothing about the interface.
        let _ = self.instruction(&inst);
        ParseAction::Continue
    }
}
