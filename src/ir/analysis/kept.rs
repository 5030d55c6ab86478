//! Kept components: a batch's vertices take different paths, and some write a component that others
//! keep. Nothing reads it before it is written, so the vertices are independent; but the component
//! has the value of the *last writer*, the last vertex that wrote it.
//!
//! The value of a component at END is a chain of block parameters and merges that starts at other
//! values or at the register's initial contents. The latter are *kept*, all others *written*. A
//! parameter that is kept on some edges and written on others is *mixed*, and a mask can tell the
//! two apart ([`Func::add_written_masks`]).

use crate::ir::{Func, Mem, Node, Terminator, Type, Value};
use crate::isa::flow::Exit;
use std::collections::HashMap;

/// Whether a value of a chain is kept or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Kept,
    Written,
    /// By the mixed parameter with this index in [`Chain::params`].
    Mixed(usize),
}

/// A mixed parameter of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MixedParam {
    block: usize,
    /// One per edge into the block, in the order of [`Func::edges_into`].
    args: Vec<Source>,
}

/// The mixed parameters through which a component reaches END, the last one first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    params: Vec<MixedParam>,
}

/// Components that the same vertices keep.
#[derive(Clone, Debug)]
pub struct KeptComponents {
    /// The components: register and number.
    pub components: Vec<(Mem, u8)>,
    chain: Chain,
}

/// The edges into a block: the edge's block and its place in [`Terminator::edges`].
type Edges = Vec<(usize, usize)>;

impl Func {
    /// The components among the stores at END that some vertices of a batch write and some keep, by
    /// the paths that write them. Where uniforms decide, all vertices keep a component or none does.
    pub fn kept_components(&self) -> Vec<KeptComponents> {
        let joins = self.divergent_joins();
        if !joins.contains(&true) {
            return Vec::new();
        }
        let edges = self.edges_into();
        let block_of = self.param_blocks();
        let mut all: Vec<KeptComponents> = Vec::new();
        let ends = self.blocks.iter().filter(|block| block.term == Terminator::Exit(Exit::End));
        for (_, inst) in ends.flat_map(|block| &block.insts) {
            let crate::ir::Inst::Store(mem, value) = *inst else { continue };
            for c in super::components(super::components_of(mem.ty())) {
                let Some(chain) = (Search { func: self, edges: &edges, block_of: &block_of, mem, c }).chain(value)
                else {
                    continue;
                };
                if !chain.params.iter().any(|param| joins[param.block]) {
                    continue;
                }
                match all.iter_mut().find(|kept| kept.chain == chain) {
                    Some(kept) => kept.components.push((mem, c)),
                    None => all.push(KeptComponents { components: vec![(mem, c)], chain }),
                }
            }
        }
        all
    }

    /// Whether some vertices keep a component of an output that others write.
    pub fn keeps_outputs(&self) -> bool {
        let kept = self.kept_components();
        kept.iter().flat_map(|kept| &kept.components).any(|(mem, _)| matches!(mem, Mem::Out { .. }))
    }

    /// Adds, for each of these sets of components, a vector whose bits at END are all set if the
    /// run wrote the set's components, and clear if it kept them. Returns the vectors.
    pub fn add_written_masks(&mut self, kept: &[KeptComponents]) -> Vec<Value> {
        let edges = self.edges_into();
        let [clear, set] = [0, !0].map(|bits| self.value(Node::Const([bits; 4])));
        let mut masks = Vec::new();
        for KeptComponents { chain, .. } in kept {
            let params: Vec<Value> = chain.params.iter().map(|_| self.value(Node::Param(Type::Vec4))).collect();
            for (MixedParam { block, args }, &param) in chain.params.iter().zip(&params) {
                self.blocks[*block].params.push(param);
                for (&(from, edge), arg) in edges[*block].iter().zip(args) {
                    let arg = match *arg {
                        Source::Kept => clear,
                        Source::Written => set,
                        Source::Mixed(n) => params[n],
                    };
                    let edge = self.blocks[from].term.edges_mut().nth(edge);
                    edge.expect("`edges_into` lists edges that exist").args.push(arg);
                }
            }
            masks.push(params[0]);
        }
        masks
    }

    /// For each block the edges into it.
    fn edges_into(&self) -> Vec<Edges> {
        let mut edges = vec![Vec::new(); self.blocks.len()];
        for (from, block) in self.blocks.iter().enumerate() {
            block.term.edges().enumerate().for_each(|(n, edge)| edges[edge.to].push((from, n)));
        }
        edges
    }

    /// For each parameter its block and its place among the block's parameters.
    fn param_blocks(&self) -> HashMap<Value, (usize, usize)> {
        let of = |(id, block): (usize, &crate::ir::Block)| -> Vec<_> {
            block.params.iter().enumerate().map(|(n, &param)| (param, (id, n))).collect()
        };
        self.blocks.iter().enumerate().flat_map(of).collect()
    }
}

/// The search for the chain of one component.
struct Search<'a> {
    func: &'a Func,
    edges: &'a [Edges],
    block_of: &'a HashMap<Value, (usize, usize)>,
    mem: Mem,
    c: u8,
}

/// What a parameter's arguments are, transitively.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Reached {
    kept: bool,
    written: bool,
}

/// A link of a chain before it is known which parameters are mixed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Kept,
    Written,
    Param(usize),
}

impl Search<'_> {
    /// The chain from `value` on; `None` if all runs write the component, or all keep it.
    fn chain(&self, value: Value) -> Option<Chain> {
        let mut order: Vec<Value> = Vec::new();
        let Link::Param(_) = self.link(value, &mut order) else { return None };
        let mut args: Vec<Vec<Link>> = Vec::new();
        while let Some(&param) = order.get(args.len()) {
            let (block, n) = self.block_of[&param];
            let arg = |&(from, edge): &(usize, usize)| {
                let edge = self.func.blocks[from].term.edges().nth(edge);
                edge.expect("`edges_into` lists edges that exist").args[n]
            };
            let links = self.edges[block].iter().map(|edge| self.link(arg(edge), &mut order)).collect();
            args.push(links);
        }
        let mut reached = vec![Reached::default(); order.len()];
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for (n, links) in args.iter().enumerate() {
                let mut now = reached[n];
                for link in links {
                    let of = match *link {
                        Link::Kept => Reached { kept: true, written: false },
                        Link::Written => Reached { kept: false, written: true },
                        Link::Param(other) => reached[other],
                    };
                    now = Reached { kept: now.kept | of.kept, written: now.written | of.written };
                }
                changed |= now != reached[n];
                reached[n] = now;
            }
        }
        // The mixed parameters, numbered from the last one of the chain on.
        let is_mixed = |n: usize| reached[n].kept && reached[n].written;
        let mut number = vec![None; order.len()];
        (0..order.len()).filter(|&n| is_mixed(n)).enumerate().for_each(|(k, n)| number[n] = Some(k));
        let source = |link: &Link| match *link {
            Link::Kept => Source::Kept,
            Link::Written => Source::Written,
            Link::Param(n) => match number[n] {
                Some(k) => Source::Mixed(k),
                None if reached[n].kept => Source::Kept,
                None => Source::Written,
            },
        };
        let mixed = (0..order.len()).filter(|&n| is_mixed(n));
        let params: Vec<MixedParam> = mixed
            .map(|n| MixedParam { block: self.block_of[&order[n]].0, args: args[n].iter().map(source).collect() })
            .collect();
        // If any parameter is mixed, the last one of the chain is: it is the first of `order`.
        (number[0] == Some(0)).then_some(Chain { params })
    }

    /// What component `c` of `value` is. A parameter is added to `order` when it is met first.
    fn link(&self, mut value: Value, order: &mut Vec<Value>) -> Link {
        loop {
            match *self.func.node(value) {
                Node::Load(mem) if mem == self.mem => return Link::Kept,
                Node::Merge { mask, old, new } => value = if mask.has(self.c.into()) { new } else { old },
                Node::Param(_) => {
                    let known = order.iter().position(|&param| param == value);
                    return Link::Param(known.unwrap_or_else(|| {
                        order.push(value);
                        order.len() - 1
                    }));
                }
                _ => return Link::Written,
            }
        }
    }
}
