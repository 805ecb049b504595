//! Everything a log ever said, held against everything it says now: entries, heads and tiles, fetched and recomputed.

use crate::gates::Acknowledged;
use client::LogClient;
use merkle::{
    HashSource, MemoryTree, PageId, ResourcePath, RootHash, TILE_WIDTH, TreeSize, prove_consistency, root_of,
};
use note::{SignedCheckpoint, VerifierKey};
use receipt::{IssuerName, Receipt, ReceiptId};
use std::collections::{BTreeMap, HashMap};

/// A copy of a log's history that only ever grows: the second time around, what was there the first time must be there
/// still.
#[derive(Debug)]
pub struct History {
    log: VerifierKey,
    tree: MemoryTree,
    /// Every head, oldest first, byte for byte.
    heads: Vec<Vec<u8>>,
    roots: BTreeMap<TreeSize, RootHash>,
    /// Number of receipts and id of the last one.
    issuers: HashMap<IssuerName, (u64, ReceiptId)>,
}

impl History {
    /// Nothing yet of the log that signs with `log`.
    pub fn new(log: VerifierKey) -> History {
        History { log, tree: MemoryTree::new(), heads: Vec::new(), roots: BTreeMap::new(), issuers: HashMap::new() }
    }

    /// How many entries it has.
    pub fn size(&self) -> u64 {
        self.tree.size().0
    }

    /// How many heads it has.
    pub fn heads(&self) -> usize {
        self.heads.len()
    }

    /// Fetches what is new and checks it: the heads from before are listed still, byte for byte; each new one is signed,
    /// not smaller than the one before, and over exactly the entries that are served; one size has one root; every
    /// issuer's receipts follow one another without a gap; the offered head is a listed one; the log's own tiles lead
    /// from the oldest new head to the newest.
    pub async fn extend(&mut self, client: &LogClient) {
        let from = self.heads.len();
        self.extend_heads(client).await;
        let listed: Vec<(TreeSize, RootHash)> =
            self.heads[from.saturating_sub(1)..].iter().map(|head| self.said(head)).collect();
        for pair in listed.windows(2) {
            assert!(pair[0].0 <= pair[1].0, "heads shrank from {} to {}", pair[0].0, pair[1].0);
        }
        let (Some(&oldest), Some(&newest)) = (listed.first(), listed.last()) else { panic!("the log lists no head") };
        self.extend_entries(client, newest.0).await;
        for (size, root) in listed {
            let held = self.roots.entry(size).or_insert(root);
            assert_eq!(*held, root, "two signed heads of size {size} conflict");
            assert_eq!(root_of(&self.tree, size).unwrap(), root, "the head of size {size} is not over what is served");
        }
        let offered = client.checkpoint().await.unwrap();
        let (size, root) = self.said(&offered);
        assert_eq!(self.roots.get(&size), Some(&root), "the offered head of size {size} is not listed");
        let tiles = client.tiles(&merkle::tiles_for_consistency(oldest.0, newest.0)).await.unwrap();
        assert_consistent(&tiles, oldest, newest);
    }

    /// Each was answered under a head that is listed, and is there where it was said to be.
    pub fn assert_holds<'a>(&self, acknowledged: impl IntoIterator<Item = &'a Acknowledged>) {
        for one in acknowledged {
            let there = self.tree.leaves().get(one.index as usize);
            assert_eq!(there, Some(&one.id.0), "the receipt acknowledged at {} is not there", one.index);
            let (size, root) = (one.head.size, one.head.root);
            assert_eq!(self.roots.get(&size), Some(&root), "a receipt was answered under a head that is not listed");
        }
    }

    async fn extend_heads(&mut self, client: &LogClient) {
        let width = usize::from(TILE_WIDTH);
        for index in self.heads.len() / width.. {
            let served = widest(client, index as u64).await;
            let first = index * width;
            let heads = match served {
                0 => Vec::new(),
                width => client.page(&ResourcePath::Heads(PageId { index: index as u64, width })).await.unwrap(),
            };
            let known = self.heads.len() - first;
            assert!(heads.len() >= known, "{} heads were listed, and now {}", self.heads.len(), first + heads.len());
            for (place, head) in heads.into_iter().enumerate() {
                match self.heads.get(first + place) {
                    Some(before) => assert_eq!(before, &head, "head {} is another one now", first + place),
                    None => self.heads.push(head.to_vec()),
                }
            }
            if served < TILE_WIDTH {
                return;
            }
        }
    }

    async fn extend_entries(&mut self, client: &LogClient, size: TreeSize) {
        let width = u64::from(TILE_WIDTH);
        for index in self.size() / width..size.0.div_ceil(width) {
            let page = PageId::at(index, size.0).unwrap();
            let entries = client.page(&ResourcePath::Entries(page)).await.unwrap();
            for (place, entry) in (index * width..).zip(entries) {
                let leaf = merkle::leaf_hash(&entry);
                match self.tree.leaves().get(place as usize) {
                    Some(before) => assert_eq!(*before, leaf, "entry {place} is another one now"),
                    None => {
                        self.tree.push(leaf);
                        self.follow(&Receipt::parse(&entry).unwrap());
                    }
                }
            }
        }
    }

    fn follow(&mut self, receipt: &Receipt) {
        let (next, head) = self.issuers.entry(receipt.issuer().clone()).or_insert((0, ReceiptId::NONE));
        assert_eq!((receipt.seq().0, receipt.prev()), (*next, *head), "{} has a gap", receipt.issuer());
        (*next, *head) = (*next + 1, receipt.id());
    }

    fn said(&self, head: &[u8]) -> (TreeSize, RootHash) {
        let head = SignedCheckpoint::parse(head).unwrap().verify(&self.log).unwrap();
        (head.checkpoint().size, head.checkpoint().root)
    }
}

/// How many heads page `index` has. A log serves every width up to that, and none beyond.
async fn widest(client: &LogClient, index: u64) -> u16 {
    let (mut served, mut refused) = (0, TILE_WIDTH + 1);
    while refused - served > 1 {
        let width = served.midpoint(refused);
        match client.resource(&ResourcePath::Heads(PageId { index, width })).await.unwrap() {
            Some(_) => served = width,
            None => refused = width,
        }
    }
    served
}

fn assert_consistent(source: &dyn HashSource, old: (TreeSize, RootHash), new: (TreeSize, RootHash)) {
    let proof = prove_consistency(source, old.0, new.0).unwrap();
    proof.verify(old.0, &old.1, new.0, &new.1).unwrap();
}
