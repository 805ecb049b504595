//! Values that others published or that an independent implementation computed.

use crate::reference::{counting_tree, first_counting_bundle, tile_bytes, tree_of};
use counterfoil_merkle as merkle;
use merkle::{
    ConsistencyProof, EMPTY_ROOT, Hash, InclusionProof, LeafIndex, MemoryTree, ResourcePath, RootHash, TreeSize,
    decode_entries, encode_entry, leaf_hash, node_hash, prove_consistency, prove_inclusion, root_of,
};
use sha2::{Digest, Sha256};

// Hash constants of the test suites around RFC 6962.
#[test]
fn leaves_and_nodes_hash_to_the_published_constants() {
    assert_eq!(EMPTY_ROOT.0, hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    assert_eq!(leaf_hash(b""), hex("6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"));
    assert_eq!(leaf_hash(b"L123456"), hex("395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56"));
    // node("N123", "N456") is over two strings of four bytes, which our node_hash cannot be given.
    let node: [u8; 32] = Sha256::digest(b"\x01N123N456").into();
    assert_eq!(Hash(node), hex("aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb"));
    let (left, right) = (leaf_hash(b"left"), leaf_hash(b"right"));
    let node: [u8; 32] = Sha256::digest([&[1], &left.0[..], &right.0[..]].concat()).into();
    assert_eq!(node_hash(&left, &right).0, node);
}

// The eight-leaf tree of the Certificate Transparency test suites.
const EIGHT_LEAVES: [&[u8]; 8] = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
];
const EIGHT_ROOTS: [&str; 8] = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];
const LEAF_1: &str = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const LEAF_4: &str = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const LEAVES_2_3: &str = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const LEAVES_4_7: &str = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";
const LEAVES_6_7: &str = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";

fn eight_leaves() -> MemoryTree {
    tree_of(8, |index| EIGHT_LEAVES[index as usize].to_vec())
}

#[test]
fn the_eight_leaf_tree_has_the_published_roots() {
    let tree = eight_leaves();
    for (size, root) in (1..).zip(EIGHT_ROOTS) {
        assert_eq!(root_of(&tree, TreeSize(size)), Ok(RootHash(hex(root))), "{size}");
    }
}

#[test]
fn the_eight_leaf_tree_has_the_published_inclusion_proofs() {
    let tree = eight_leaves();
    for (index, size, hashes) in [
        (0, 8, &[LEAF_1, LEAVES_2_3, LEAVES_4_7][..]),
        (5, 8, &[LEAF_4, LEAVES_6_7, EIGHT_ROOTS[3]]),
        (2, 3, &[EIGHT_ROOTS[1]]),
        (1, 5, &[EIGHT_ROOTS[0], LEAVES_2_3, LEAF_4]),
    ] {
        let proof = InclusionProof::new(hashes.iter().map(|text| hex(text)).collect());
        assert_eq!(prove_inclusion(&tree, LeafIndex(index), TreeSize(size)), Ok(proof.clone()), "{index} in {size}");
        let root = RootHash(hex(EIGHT_ROOTS[size as usize - 1]));
        let leaf = leaf_hash(EIGHT_LEAVES[index as usize]);
        assert_eq!(proof.verify(&leaf, LeafIndex(index), TreeSize(size), &root), Ok(()), "{index} in {size}");
    }
}

#[test]
fn the_eight_leaf_tree_has_the_published_consistency_proofs() {
    let tree = eight_leaves();
    for (old, new, hashes) in [
        (1, 8, &[LEAF_1, LEAVES_2_3, LEAVES_4_7][..]),
        (6, 8, &["0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a", LEAVES_6_7, EIGHT_ROOTS[3]]),
        (2, 5, &[LEAVES_2_3, LEAF_4]),
        (
            3,
            7,
            &[
                "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7",
                "07506a85fd9dd2f120eb694f86011e5bb4662e5c415a62917033d4a9624487e7",
                EIGHT_ROOTS[1],
                "837dbb152e9b079010717e84e865da4ebc0fa198a806d59d31bf15accef22d0e",
            ],
        ),
    ] {
        let proof = ConsistencyProof::new(hashes.iter().map(|text| hex(text)).collect());
        assert_eq!(prove_consistency(&tree, TreeSize(old), TreeSize(new)), Ok(proof.clone()), "{old} to {new}");
        let [old_root, new_root] = [old, new].map(|size| RootHash(hex(EIGHT_ROOTS[size as usize - 1])));
        assert_eq!(proof.verify(TreeSize(old), &old_root, TreeSize(new), &new_root), Ok(()), "{old} to {new}");
    }
}

// The tree of 70,000 leaves whose leaf i holds i as eight big-endian bytes, computed with an independent
// implementation.
#[test]
fn roots_on_both_sides_of_tile_boundaries_are_those_of_another_implementation() {
    let tree = counting_tree(70_000);
    for (size, root) in [
        (1, "3e7077fd2f66d689e0cee6a7cf5b37bf2dca7c979af356d0a31cbc5c85605c7d"),
        (255, "bb3b9743e08118ea583ae77df04a1449a0601cde6f75146d79c2cab6366ce210"),
        (256, "15e2dd4973ae44de8c8cf3048fd98d17adaaea6287f4e0606a55a643617408c0"),
        (257, "d418c0873259bce7d0561ab004486112416c1c4490865415342bfe06e673146c"),
        (65_535, "e7321cd57abf36c522d89e6d26bd9098a37b6a8b06b318976269e701f6d4802d"),
        (65_536, "bc9bca909516d5bf148c2bf2dea0a0d9f717ce4987d2fe7504d6694363b41598"),
        (65_537, "a901bb447a4b4c361cdf559658f27f24a8a3ebbc49257c472efe950932d4853a"),
        (70_000, "0759167a0f98e35e802d46ff7c7d29d2c3f03a63a256deb6abbff357a91b63b1"),
    ] {
        assert_eq!(root_of(&tree, TreeSize(size)), Ok(RootHash(hex(root))), "{size}");
    }
    for (path, digest) in [
        ("tile/0/000", "20cd0859c7fb4ae9eeac1d244887e6f9342d86ce0b1a1c7bb244915d3d0dc971"),
        ("tile/1/000", "dbf848d70619481ec09adf64ff73d027ffd27f3cab12570d5087d7e9fede902a"),
        ("tile/0/273.p/112", "c7ebb1581fb37d08e8c14ef23ce02ebd07d79d783b6515c740d8b9f566ef0289"),
        ("tile/1/001.p/17", "4fd210567f39abfd6af3acd3f895698cbaaf1b83bd764f98d7d81f431454aa54"),
    ] {
        let Some(ResourcePath::Tile(tile)) = ResourcePath::parse(path) else { panic!("{path} is no tile") };
        assert_eq!(sha256(&tile_bytes(&tree, tile)), hex(digest), "{path}");
    }
    let Some(ResourcePath::Tile(top)) = ResourcePath::parse("tile/2/000.p/1") else { panic!("no tile") };
    assert_eq!(
        tile_bytes(&tree, top),
        hex("bc9bca909516d5bf148c2bf2dea0a0d9f717ce4987d2fe7504d6694363b41598").0,
        "the root of 65,536 leaves is the one hash at level 2"
    );
}

#[test]
fn the_first_entry_bundle_of_that_tree_is_the_one_of_another_implementation() {
    let bundle = first_counting_bundle();
    assert_eq!(bundle.len(), 2560);
    assert_eq!(sha256(&bundle), hex("f4bae1960a3cedc6303230167918d50a56329bea77c58fbc22445dc195b60774"));
}

// Values of the test log that comes with Tessera (its entries are spelled like this).
const TESSERA_ENTRIES: [&str; 15] = [
    "one", "two", "three", "four", "five", "six", "seven", "eit", "nain", "ten", "ileven", "twelf", "threeten",
    "fourten", "fivten",
];

#[test]
fn the_roots_of_the_tessera_test_log_come_out() {
    let tree = tree_of(15, |index| TESSERA_ENTRIES[index as usize].into());
    for (size, root) in [
        (0, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
        (1, "0Nc2CrefWKseHj/mStd+LqC8B+NrX0btIiPt2SmN+ek="),
        (2, "T1X2GdkhUjV3iyufF9b0kVsWFxIU0VI4EpNml2Teci4="),
        (7, "IrSXADBqJ7EQoUODSDKROySgNveeL6CFhik2w/+fS7U="),
        (15, "rKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs="),
    ] {
        assert_eq!(root_of(&tree, TreeSize(size)), Ok(RootHash(Hash::from_base64(root).unwrap())), "{size}");
    }
    assert_eq!(leaf_hash(b"one"), hex("d0d7360ab79f58ab1e1e3fe64ad77e2ea0bc07e36b5f46ed2223edd9298df9e9"));
}

#[test]
fn the_entry_bundle_of_the_tessera_test_log_begins_as_it_does_there() {
    let mut bundle = Vec::new();
    TESSERA_ENTRIES.iter().for_each(|entry| encode_entry(&mut bundle, entry.as_bytes()).unwrap());
    assert!(bundle.starts_with(b"\x00\x03one\x00\x03two\x00\x05three"));
    assert_eq!(decode_entries(&bundle).unwrap(), TESSERA_ENTRIES.map(str::as_bytes));
}

fn hex(text: &str) -> Hash {
    Hash::from_hex(text).unwrap()
}

fn sha256(bytes: &[u8]) -> Hash {
    Hash(Sha256::digest(bytes).into())
}
