//! The right edge of a tree against the recursive definition of its root.

use crate::reference::{counting_tree, naive_root};
use counterfoil_merkle as merkle;
use merkle::{EMPTY_ROOT, Frontier, Hash, HashSource, MemoryTree, TreeSize, root_of};

#[test]
fn a_frontier_has_the_root_of_the_recursive_definition_at_every_size() {
    let leaves = counting_tree(600).leaves().to_vec();
    let (mut frontier, mut tree) = (Frontier::new(), MemoryTree::new());
    assert_eq!(frontier.root(), EMPTY_ROOT);
    for size in 0..=leaves.len() {
        let root = naive_root(&leaves[..size]);
        assert_eq!(frontier.size(), TreeSize(size as u64));
        assert_eq!(frontier.root(), root, "frontier of {size}");
        assert_eq!(tree.root(), root, "tree of {size}");
        assert_eq!(root_of(&tree, tree.size()), Ok(root), "root from subtrees at {size}");
        if let Some(leaf) = leaves.get(size) {
            frontier.push(*leaf);
            tree.push(*leaf);
        }
    }
    assert_eq!(tree.leaves(), leaves);
}

#[test]
fn a_frontier_goes_on_from_its_peaks_as_if_it_had_never_stopped() {
    let leaves = counting_tree(300).leaves().to_vec();
    let mut whole = Frontier::new();
    for leaf in &leaves {
        whole = Frontier::from_peaks(whole.size(), whole.peaks().to_vec()).unwrap();
        whole.push(*leaf);
    }
    assert_eq!(whole.root(), naive_root(&leaves));
    assert_eq!(Frontier::from_peaks(TreeSize(0), Vec::new()), Some(Frontier::new()));
}

#[test]
fn peaks_are_the_complete_subtrees_largest_first() {
    let tree = counting_tree(0b1011);
    let mut frontier = Frontier::new();
    tree.leaves().iter().for_each(|leaf| frontier.push(*leaf));
    let expected = [(3, 0), (1, 4), (0, 10)].map(|(level, index)| tree.subtree(level, index).unwrap());
    assert_eq!(frontier.peaks(), expected);
}

#[test]
fn a_frontier_is_not_made_from_another_number_of_peaks_than_its_size_has_one_bits() {
    for (size, peaks) in [(0, 1), (1, 0), (1, 2), (6, 1), (6, 3), (1 << 63, 0), (u64::MAX, 63), (u64::MAX, 65)] {
        assert_eq!(Frontier::from_peaks(TreeSize(size), vec![Hash([0; 32]); peaks]), None, "{size} from {peaks}");
    }
}

#[test]
fn a_frontier_does_not_start_where_its_size_could_overflow() {
    let mut largest = Frontier::from_peaks(TreeSize(1 << 63), vec![Hash([1; 32])]).unwrap();
    largest.push(Hash([2; 32]));
    assert_eq!(largest.size(), TreeSize((1 << 63) + 1));
    for size in [(1 << 63) + 1, u64::MAX] {
        let peaks = vec![Hash([0; 32]); size.count_ones() as usize];
        assert_eq!(Frontier::from_peaks(TreeSize(size), peaks), None, "{size}");
    }
}

#[test]
fn subtrees_that_are_not_complete_are_not_known() {
    let tree = counting_tree(5);
    assert!(tree.subtree(0, 4).is_some());
    for (level, index) in [(0, 5), (1, 2), (2, 1), (3, 0), (63, 0), (64, 0), (255, u64::MAX), (0, u64::MAX)] {
        assert_eq!(tree.subtree(level, index), None, "{level}, {index}");
    }
}
