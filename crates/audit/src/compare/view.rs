//! One bundle of several: everything signed in it, read and verified as an audit does.

use super::Source;
use crate::amount::amount;
use crate::bundle::{BundleSource, MAX_NOTE_BYTES, ReadError, read_part};
use crate::head::HeadFacts;
use crate::heads::{Heads, ListedHead, ListedHeads, NoLog, choose_log};
use crate::judge::verify_offered;
use crate::kept::KeptProofs;
use crate::tree::{Replayed, Resources};
use crate::verdict::{Check, CheckBuilder, Family};
use crate::witnesses::{Cosignatures, read_witnesses};
use merkle::RootHash;
use note::{Policy, SignedCheckpoint, Verified, VerifierKey};
use std::collections::BTreeSet;

/// One bundle, once everything signed in it was read.
pub(super) struct View<'bundle> {
    /// Its place among those given, from 1.
    pub(super) number: usize,
    pub(super) bundle: &'bundle dyn BundleSource,
    pub(super) paths: Vec<String>,
    pub(super) resources: Resources,
    pub(super) offered: Option<SignedCheckpoint<Verified>>,
    pub(super) heads: Heads,
    /// The log's list is there, and no page of it is missing: what it does not have was left out of it.
    pub(super) list_is_whole: bool,
    /// Heads that the log's list does not have: the offered one, and those of others.
    beside: BTreeSet<(u64, RootHash)>,
    /// Size of the largest head that the log presents: so many entries are read.
    pub(super) target: u64,
}

/// A head in a bundle, and where.
#[derive(Clone, Copy)]
pub(super) enum HeadAt<'view> {
    Listed(ListedHead),
    Offered(&'view SignedCheckpoint<Verified>),
    Known(&'view crate::heads::KnownHead),
}

/// The key of the log that a bundle is of.
pub(super) fn log_of<'policy>(
    bundle: &dyn BundleSource,
    policy: &'policy Policy,
) -> Result<Result<&'policy VerifierKey, NoLog>, ReadError> {
    let checkpoint = read_part(bundle, "log/checkpoint", MAX_NOTE_BYTES)?;
    Ok(choose_log(policy, checkpoint.as_deref()))
}

impl<'bundle> View<'bundle> {
    /// Reads and verifies everything signed. What is wrong with it, or missing, is in `checks`, under the bundle's number;
    /// good cosignatures are added to `cosignatures`. These checks say what was read and no more; their names are none of
    /// an audit's, so that nobody takes one for the other.
    pub(super) fn read(
        bundle: &'bundle dyn BundleSource,
        number: usize,
        policy: &Policy,
        log: &VerifierKey,
        cosignatures: &mut Cosignatures,
        checks: &mut Vec<Check>,
    ) -> Result<View<'bundle>, ReadError> {
        let paths = bundle.list();
        let resources = Resources::below("log/", &paths);
        let builder = |family: Family, name: &str| CheckBuilder::new(family, format!("bundle-{number}/{name}"));
        let mut signature = builder(Family::Head, "offered-head-read");
        let listed = ListedHeads::none(builder(Family::Head, "list-read"));
        let mut known = builder(Family::Head, "witnessed-heads-read");
        let mut lines = builder(Family::Quorum, "cosignatures-read");
        // A policy without witnesses asks for nothing of theirs.
        known.required(!policy.witnesses().is_empty());
        lines.required(!policy.witnesses().is_empty());
        let checkpoint = read_part(bundle, "log/checkpoint", MAX_NOTE_BYTES)?;
        let offered = verify_offered(checkpoint, log, &mut signature);
        let (mut heads, mut listed) = Heads::read(bundle, &resources, log, listed)?;
        let mut own = Cosignatures::default();
        if let Some(offered) = &offered {
            own.read(policy, log, offered, "log/checkpoint", &mut lines);
        }
        read_witnesses(bundle, &paths, policy, log, &mut heads, &mut own, (&mut known, &mut lines))?;
        // Their heads and cosignatures are among the others now. A proof that proves nothing is its keeper's affair.
        KeptProofs::read(bundle, &paths, policy, log, &mut heads, &mut own, &mut lines)?;
        cosignatures.absorb(own);
        if heads.listed.is_empty() && listed.count("heads-missing") == 0 && listed.count("bad-log-signature") == 0 {
            listed.not_checked("heads-missing", &[], || {
                [
                    String::from("the bundle holds no list of the log's heads"),
                    String::from("that the log signed no other head"),
                    String::from("fetch the bundle again from a log that serves /heads"),
                ]
            });
        }
        let list_is_whole = !heads.listed.is_empty() && listed.count("heads-missing") == 0;
        checks.push(signature.finish("the newest head that the log offers can be read"));
        checks.push(
            listed.finish(format!(
                "{} in the log's list can be read",
                amount(heads.listed.len() as u64, "head", "heads")
            )),
        );
        checks.push(known.finish(format!(
            "{} from witnesses, journals and kept proofs can be read; compare/lists says which of them the list lacks",
            amount(heads.others, "head", "heads")
        )));
        checks.push(lines.finish("cosignatures can be read; whether they are enough is for an audit to say"));
        let mut beside: BTreeSet<(u64, RootHash)> =
            heads.unlisted.iter().map(|head| (head.size(), head.root())).collect();
        beside.extend(offered.iter().map(|head| (head.checkpoint().size.0, head.checkpoint().root)));
        let target = offered.as_ref().map(|head| head.checkpoint().size.0).max(heads.largest_listed()).unwrap_or(0);
        Ok(View { number, bundle, paths, resources, offered, heads, list_is_whole, beside, target })
    }

    /// What the head family judges this bundle's tree by.
    pub(super) fn facts<'view>(&'view self, log: &'view VerifierKey, replayed: &'view Replayed) -> HeadFacts<'view> {
        HeadFacts {
            bundle: self.bundle,
            resources: &self.resources,
            log,
            checkpoint: self.offered.as_ref(),
            heads: &self.heads,
            replayed,
        }
    }

    /// The log's entries.
    pub(super) fn entries(&self) -> Source<'_> {
        Source { number: self.number, bundle: self.bundle, resources: &self.resources, size: self.target }
    }

    /// All heads of the log in it: those that its list lacks after those that it has, each once.
    pub(super) fn all_heads(&self) -> impl Iterator<Item = HeadAt<'_>> {
        self.heads.listed.iter().map(|head| HeadAt::Listed(*head)).chain(self.beside_the_list())
    }

    /// Those that its list lacks.
    pub(super) fn beside_the_list(&self) -> impl Iterator<Item = HeadAt<'_>> {
        let known = self.heads.unlisted.iter().map(HeadAt::Known);
        let is_known = |head: &SignedCheckpoint<Verified>| {
            let (size, root) = (head.checkpoint().size.0, head.checkpoint().root);
            self.heads.lists(size, root)
                || self.heads.unlisted.iter().any(|known| (known.size(), known.root()) == (size, root))
        };
        self.offered.iter().filter(move |head| !is_known(head)).map(HeadAt::Offered).chain(known)
    }

    /// Their sizes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.all_heads().map(|head| head.size())
    }

    /// Whether it holds this head, wherever.
    pub(super) fn holds(&self, size: u64, root: RootHash) -> bool {
        self.heads.lists(size, root) || self.beside.contains(&(size, root))
    }

    /// Another head of this size with another root.
    pub(super) fn twin(&self, size: u64, root: RootHash) -> Option<HeadAt<'_>> {
        let listed = self.heads.listed_at(size).iter().find(|head| head.root != root);
        let beside = || self.beside_the_list().find(|head| head.size() == size && head.root() != root);
        listed.map(|head| HeadAt::Listed(*head)).or_else(beside)
    }

    /// The largest head in it.
    pub(super) fn newest(&self) -> Option<HeadAt<'_>> {
        let listed = self.heads.listed.last().map(|head| HeadAt::Listed(*head));
        self.beside_the_list().chain(listed).max_by_key(HeadAt::size)
    }

    /// The note of a head of this bundle.
    pub(super) fn note(
        &self,
        head: HeadAt<'_>,
        log: &VerifierKey,
    ) -> Result<Option<SignedCheckpoint<Verified>>, ReadError> {
        match head {
            HeadAt::Listed(head) => self.heads.listed_note(self.bundle, &self.resources, head, log),
            HeadAt::Offered(note) => Ok(Some(note.clone())),
            HeadAt::Known(known) => Ok(Some(known.checkpoint.clone())),
        }
    }
}

impl HeadAt<'_> {
    pub(super) fn size(&self) -> u64 {
        match self {
            HeadAt::Listed(head) => head.size,
            HeadAt::Offered(head) => head.checkpoint().size.0,
            HeadAt::Known(head) => head.size(),
        }
    }

    pub(super) fn root(&self) -> RootHash {
        match self {
            HeadAt::Listed(head) => head.root,
            HeadAt::Offered(head) => head.checkpoint().root,
            HeadAt::Known(head) => head.root(),
        }
    }

    /// Where it is, in words that complete "a head in …".
    pub(super) fn place(&self) -> &str {
        match self {
            HeadAt::Listed(_) => "the log's own list",
            HeadAt::Offered(_) => "log/checkpoint",
            HeadAt::Known(head) => &head.found_in,
        }
    }
}
