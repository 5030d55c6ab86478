//! Successors -> block numbers in reverse postorder, the order of the graph, the SSA and its
//! verification.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_successors_follow_their_blocks() {
        // 0 -> 1, 3; 1 -> 2; 2 -> 0 (back), 4; 3 -> 4; 5 is unreachable.
        let edges = [vec![1, 3], vec![2], vec![0, 4], vec![4], vec![], vec![0]];
        assert_eq!(reverse_postorder(6, |b| edges[b].clone().into_iter()), [0, 1, 2, 3, 4]);
    }
}
