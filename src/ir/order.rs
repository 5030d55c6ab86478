//! Successors -> block numbers in reverse postorder, the order of the graph, the SSA and its
//! verification. Dominators, and strongly connected components.

use std::collections::HashMap;

/// The `count` blocks that block 0 reaches, in reverse postorder: each before its successors except
/// along backward edges, and the first successor directly after its block where possible.
/// Unreachable blocks are omitted.
pub(super) fn reverse_postorder<I: DoubleEndedIterator<Item = usize>>(
    count: usize,
    successors: impl Fn(usize) -> I,
) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut postorder = Vec::with_capacity(count);
    // A block and its unvisited successors. The last is visited first, so that in the reversed
    // order the first directly follows the block.
    let mut stack = vec![(0, successors(0))];
    seen[0] = true;
    while let Some((block, rest)) = stack.last_mut() {
        match rest.next_back() {
            Some(to) if !seen[to] => {
                seen[to] = true;
                stack.push((to, successors(to)));
            }
            Some(_) => {}
            None => {
                postorder.push(*block);
                stack.pop();
            }
        }
    }
    postorder.reverse();
    postorder
}

/// The immediate dominator of each block: the last other one that every path to it goes through. Blocks
/// are in reverse postorder. `None`: the first block, or an unreachable one (Cooper, Harvey, Kennedy,
/// 2001).
pub(crate) fn dominators(predecessors: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut found: Vec<Option<usize>> = vec![None; predecessors.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in 1..predecessors.len() {
            let known = predecessors[block].iter().copied().filter(|&from| from == 0 || found[from].is_some());
            let new = known.reduce(|mut a, mut b| {
                while a != b {
                    if a < b {
                        std::mem::swap(&mut a, &mut b);
                    }
                    a = found[a].expect("a block that is known, and not the first");
                }
                a
            });
            if new != found[block] {
                (found[block], changed) = (new, true);
            }
        }
    }
    found
}

/// Whether every path to `block` goes through `above`. An unreachable block has no such path.
pub(crate) fn dominates(dominators: &[Option<usize>], above: usize, mut block: usize) -> bool {
    while block > above {
        let Some(dominator) = dominators[block] else { return false };
        block = dominator;
    }
    block == above
}

/// Strongly connected components of the nodes `part` (Tarjan), successors first.
pub(crate) fn components(part: &[usize], successors: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    const UNSEEN: u32 = u32::MAX;
    let place: HashMap<usize, usize> = part.iter().enumerate().map(|(n, &node)| (node, n)).collect();
    let successors: Vec<Vec<usize>> =
        part.iter().map(|&node| successors(node).iter().filter_map(|to| place.get(to).copied()).collect()).collect();
    let mut order = vec![UNSEEN; part.len()];
    let mut low = vec![0u32; part.len()];
    let mut on_stack = vec![false; part.len()];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0u32);
    for root in 0..part.len() {
        if order[root] != UNSEEN {
            continue;
        }
        let mut visit = vec![(root, 0usize)];
        while let Some((node, child)) = visit.pop() {
            if child == 0 {
                (order[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&to) = successors[node].get(child) {
                visit.push((node, child + 1));
                if order[to] == UNSEEN {
                    visit.push((to, 0));
                } else if on_stack[to] {
                    low[node] = low[node].min(order[to]);
                }
                continue;
            }
            if low[node] == order[node] {
                let mut component = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    component.push(part[member]);
                    if member == node {
                        break;
                    }
                }
                found.push(component);
            }
            if let Some(&(parent, _)) = visit.last() {
                low[parent] = low[parent].min(low[node]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_successors_follow_their_blocks() {
        // 0 -> 1, 3; 1 -> 2; 2 -> 0 (back), 4; 3 -> 4; 5 is unreachable.
        let edges = [vec![1, 3], vec![2], vec![0, 4], vec![4], vec![], vec![0]];
        assert_eq!(reverse_postorder(6, |b| edges[b].clone().into_iter()), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn dominators_of_a_loop_with_two_entries() {
        // 0 -> 1, 2; 1 <-> 2; 2 -> 3; 3 -> 4, 5; 4 -> 5; 6 is unreachable, 6 -> 5.
        let predecessors = [vec![], vec![0, 2], vec![0, 1], vec![2], vec![3], vec![3, 4, 6], vec![]];
        let dominators = dominators(&predecessors);
        assert_eq!(dominators, [None, Some(0), Some(0), Some(2), Some(3), Some(3), None]);
        for (above, block, wanted) in [
            (0, 5, true),
            (2, 5, true),
            (3, 4, true),
            (4, 5, false),
            (1, 2, false),
            (5, 3, false),
            (0, 6, false),
            (6, 6, true),
        ] {
            assert_eq!(dominates(&dominators, above, block), wanted, "{above} over {block}");
        }
    }
}
