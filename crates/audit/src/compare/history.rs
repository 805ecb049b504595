//! `compare/history` and `compare/lists`: the heads of each bundle against the tree and the list of each other, and
//! against its own.

use super::view::{HeadAt, View};
use super::{Unread, tiles_between};
use crate::amount::amount;
use crate::head::{HeadFacts, Standing};
use crate::verdict::{Check, CheckBuilder, Family};
use cosign::{Comparison, LogFork, Unproven, compare};
use note::{SignedCheckpoint, Verified, VerifierKey};

/// Most forks that are turned into evidence documents; one is enough to convict.
const MAX_FORK_EVIDENCE: u64 = 10;

/// Most forks that a document is tried for. Each try reads a page of heads and some tiles, and a log that forked may have
/// signed a million heads after it, none of which the bundles have the tiles of.
const MAX_TRIES: u64 = 100;

/// Every two bundles, in both directions.
pub(super) fn judge(
    views: &[View<'_>],
    facts: &[HeadFacts<'_>],
    authenticated: &[u64],
    log: &VerifierKey,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Vec<Check>, Unread> {
    let mut history = History {
        views,
        facts,
        authenticated,
        log,
        check: CheckBuilder::new(Family::Compare, "history"),
        lists: CheckBuilder::new(Family::Compare, "lists"),
        documents: 0,
        tries: 0,
        evidence,
    };
    let (mut pairs, mut shared) = (0u64, Vec::new());
    for first in 0..views.len() {
        for second in first + 1..views.len() {
            pairs += 1;
            let forks = history.check.count("log-fork");
            history.heads_against_tree(first, second)?;
            history.heads_against_tree(second, first)?;
            if history.check.count("log-fork") > forks {
                history.check.checked();
            } else {
                shared.extend(history.newest(first, second)?);
            }
        }
    }
    for place in 0..views.len() {
        history.own_heads(place)?;
    }
    let History { check, lists, .. } = history;
    let up_to = match (shared.iter().min(), shared.len()) {
        (None, _) => String::new(),
        (Some(size), 1) => format!(", up to size {size}"),
        (Some(size), _) => format!(", each up to size {size} or beyond"),
    };
    let pairs = amount(pairs, "pair of bundles", "pairs of bundles");
    let covers = format!("{} of {pairs} shown to be of one history{up_to}", shared.len());
    Ok(vec![
        check.finish(covers),
        lists.finish("each list of heads held against the heads in all bundles, its own bundle's witnesses included"),
    ])
}

struct History<'judged> {
    views: &'judged [View<'judged>],
    facts: &'judged [HeadFacts<'judged>],
    authenticated: &'judged [u64],
    log: &'judged VerifierKey,
    check: CheckBuilder,
    lists: CheckBuilder,
    documents: u64,
    tries: u64,
    evidence: &'judged mut Vec<serde_json::Value>,
}

impl History<'_> {
    /// Heads that `other` has and `tree` lacks: on its tree, or a second history; in its list, or left out of it.
    fn heads_against_tree(&mut self, tree: usize, other: usize) -> Result<(), Unread> {
        let (view, theirs) = (&self.views[tree], &self.views[other]);
        if !view.heads.listed.is_empty() && theirs.newest().is_some() {
            self.lists.checked();
        }
        for head in theirs.all_heads() {
            let (size, root) = (head.size(), head.root());
            if view.heads.lists(size, root) {
                continue;
            }
            // A head that it holds elsewhere is held against its own tree by its own audit.
            if !view.holds(size, root) {
                let standing = self.facts[tree].standing(size, root, self.authenticated[tree]);
                let twin = view.twin(size, root).filter(|_| standing != Standing::OnTree);
                match (standing, twin) {
                    (Standing::Fork, _) => {
                        self.forked_from_tree(tree, other, head)?;
                        continue;
                    }
                    (_, Some(twin)) => {
                        self.twins(tree, twin, other, head)?;
                        continue;
                    }
                    (Standing::Mismatch, None) => self.unlike(view.number, theirs.number, size),
                    (Standing::OnTree | Standing::Uncovered, None) => {}
                }
            }
            // What its own witnesses show is missed in it once, not once for every other bundle.
            let is_missed_anyway = view.list_is_whole && view.holds(size, root);
            if !is_missed_anyway && view.heads.largest_listed().is_some_and(|largest| largest > size) {
                self.omitted(view.number, theirs.number, head);
            }
        }
        Ok(())
    }

    /// Heads in a bundle that contradict its own tree, or that its own list lacks. An audit of it finds them too; without
    /// them two bundles that lack the same head would be called one history.
    fn own_heads(&mut self, place: usize) -> Result<(), Unread> {
        let view = &self.views[place];
        for head in view.all_heads() {
            let (size, root) = (head.size(), head.root());
            let standing = self.facts[place].standing(size, root, self.authenticated[place]);
            let twin = view.twin(size, root).filter(|_| standing != Standing::OnTree);
            let is_left_out = match head {
                HeadAt::Listed(_) => false,
                HeadAt::Offered(_) => !view.heads.listed.is_empty(),
                HeadAt::Known(_) => view.list_is_whole || size > view.target,
            };
            match (standing, twin) {
                (Standing::Fork, _) => self.forked_from_tree(place, place, head)?,
                // Each pair once, from the side that comes first.
                (_, Some(twin)) if root < twin.root() => self.twins(place, twin, place, head)?,
                (_, Some(_)) => {}
                (_, None) if is_left_out => self.left_out(view.number, view.target, head),
                (_, None) => {}
            }
        }
        if view.heads.unlisted_more > 0 && view.list_is_whole {
            self.lists.fail("omitted-head", &[], || {
                [
                    format!(
                        "{} further heads in bundle {} are missing from the log's list in it",
                        view.heads.unlisted_more, view.number
                    ),
                    String::from("who left them out: the log, or whoever made the bundle"),
                    format!("audit bundle {} by itself; fetch the list from the log itself", view.number),
                ]
            });
        }
        Ok(())
    }

    /// Up to which size two bundles, of which no two heads contradict each other so far, are shown to be one history: up to
    /// the smaller of their newest heads, or less if these cannot be compared. `None`: up to none.
    fn newest(&mut self, first: usize, second: usize) -> Result<Option<u64>, Unread> {
        let numbers = [self.views[first].number, self.views[second].number];
        let (Some(one), Some(other)) = (self.views[first].newest(), self.views[second].newest()) else {
            self.not_comparable(numbers, "one of them holds no head that the log signed");
            return Ok(None);
        };
        if one.size() == 0 || other.size() == 0 {
            self.not_comparable(
                numbers,
                "the newest head of one is of the empty log, and every history begins with that",
            );
            return Ok(None);
        }
        let is_same = (one.size(), one.root()) == (other.size(), other.root());
        let on_one_tree =
            [first, second].into_iter().any(|tree| self.is_on_tree(tree, one) && self.is_on_tree(tree, other));
        let mut shown = one.size().min(other.size());
        if !is_same && !on_one_tree {
            // The entries of neither reach over both heads: what tiles there are may still tell.
            let compared = match self.notes([(first, one), (second, other)])? {
                [Some(one), Some(other)] => Some(self.compare_by_tiles([first, second], &one, &other)?),
                _ => None,
            };
            match compared {
                Some(Comparison::Consistent) => {}
                Some(Comparison::Fork(fork)) => {
                    let sizes = [one.size(), other.size()];
                    self.add_fork(
                        format!(
                            "the log signed two histories: its newest heads in bundles {} and {}, of sizes {} and {}, contradict each other",
                            numbers[0], numbers[1], sizes[0], sizes[1]
                        ),
                        Some(*fork),
                    );
                    return Ok(None);
                }
                unproven => {
                    shown = self.shown_by_both(first, second);
                    let why = match &unproven {
                        Some(Comparison::Unproven(why)) => reason(why),
                        _ => String::from("the note of a head cannot be read again"),
                    };
                    if shown == 0 {
                        self.not_comparable(numbers, &format!(
                            "how the newest heads known from them, of sizes {} and {}, stand to each other is not shown ({why})",
                            one.size(), other.size()
                        ));
                        return Ok(None);
                    }
                    self.not_shown_beyond([first, second], shown, &why);
                }
            }
        }
        self.check.checked();
        // What the log presents in each; its witnesses may know of more, and are no part of the copy.
        let sizes = [self.views[first].target, self.views[second].target];
        if sizes[0] != sizes[1] {
            let (older, newer) = if sizes[0] < sizes[1] { (0, 1) } else { (1, 0) };
            self.check.notice("older-copy", &[], || {
                [
                    format!(
                        "bundle {} is an older copy: the log as presented in it ends at size {}, and goes on to size {} in bundle {}",
                        numbers[older], sizes[older], sizes[newer], numbers[newer]
                    ),
                    String::from("that anything is wrong with it"),
                    String::from("nothing to do"),
                ]
            });
        }
        Ok(Some(shown))
    }

    fn is_on_tree(&self, tree: usize, head: HeadAt<'_>) -> bool {
        self.facts[tree].standing(head.size(), head.root(), self.authenticated[tree]) == Standing::OnTree
    }

    /// The largest size up to which both bundles hold heads of one tree, recomputed from the entries of either, or one
    /// and the same head.
    fn shown_by_both(&self, first: usize, second: usize) -> u64 {
        let largest_on = |tree: usize, place: usize| {
            let on_tree = self.views[place].all_heads().filter(|head| self.is_on_tree(tree, *head));
            on_tree.map(|head| head.size()).max().unwrap_or(0)
        };
        let by_trees = [first, second].into_iter().map(|tree| largest_on(tree, first).min(largest_on(tree, second)));
        let in_both = self.views[first].all_heads().filter(|head| self.views[second].holds(head.size(), head.root()));
        by_trees.chain(in_both.map(|head| head.size())).max().unwrap_or(0)
    }

    /// Says which heads of two bundles, beyond what both are shown to have, no tree of either reaches.
    fn not_shown_beyond(&mut self, pair: [usize; 2], shown: u64, why: &str) {
        let is_open = |head: &HeadAt<'_>| head.size() > shown && !pair.iter().any(|tree| self.is_on_tree(*tree, *head));
        let open = pair.iter().flat_map(|place| {
            self.views[*place].all_heads().filter(is_open).map(|head| (self.views[*place].number, head))
        });
        let (mut count, mut newest) = (0u64, None);
        for (number, head) in open {
            count += 1;
            newest = match newest {
                Some((_, largest)) if HeadAt::size(&largest) >= head.size() => newest,
                _ => Some((number, head)),
            };
        }
        let numbers = pair.map(|place| self.views[place].number);
        let which = match newest {
            Some((number, head)) => format!("a head of size {} in {} of bundle {number}", head.size(), head.place()),
            None => String::from("what either holds beyond it"),
        };
        let others = match count.saturating_sub(1) {
            0 => String::new(),
            more => format!(", nor are {}", amount(more, "older head", "older heads")),
        };
        self.check.not_checked("not-comparable", &[], || {
            [
                format!(
                    "bundles {} and {} are one history up to size {shown}; {which} is not shown to continue it ({why}){others}",
                    numbers[0], numbers[1]
                ),
                String::from("whether the log showed one history to both beyond that size"),
                String::from("fetch both again, with their entries and tiles; ask whoever holds that head for its entries"),
            ]
        });
    }

    /// By the tiles of either bundle.
    fn compare_by_tiles(
        &self,
        pair: [usize; 2],
        one: &SignedCheckpoint<Verified>,
        other: &SignedCheckpoint<Verified>,
    ) -> Result<Comparison, Unread> {
        let mut answer = Comparison::Unproven(Unproven::OtherRoot(one.checkpoint().size));
        for place in pair {
            let tiles = tiles_between(&self.views[place].entries(), one.checkpoint().size, other.checkpoint().size)?;
            answer = compare(one, other, &tiles);
            if !matches!(answer, Comparison::Unproven(_)) {
                break;
            }
        }
        Ok(answer)
    }

    fn forked_from_tree(&mut self, tree: usize, other: usize, head: HeadAt<'_>) -> Result<(), Unread> {
        let (view, theirs) = (&self.views[tree], &self.views[other]);
        let document = match self.is_worth_a_try() {
            false => None,
            true => match theirs.note(head, self.log).map_err(|error| Unread { number: theirs.number, error })? {
                None => None,
                Some(note) => self.facts[tree]
                    .fork_evidence(&note, self.authenticated[tree])
                    .map_err(|error| Unread { number: view.number, error })?,
            },
        };
        self.add_fork(
            format!(
                "the log signed two histories: a head in {} of bundle {}, of size {}, has another root than the tree that the log signed at size {} in bundle {}",
                head.place(),
                theirs.number,
                head.size(),
                self.authenticated[tree],
                view.number
            ),
            document,
        );
        Ok(())
    }

    fn twins(&mut self, tree: usize, twin: HeadAt<'_>, other: usize, head: HeadAt<'_>) -> Result<(), Unread> {
        let document = match self.is_worth_a_try() {
            false => None,
            true => match self.notes([(tree, twin), (other, head)])? {
                [Some(one), Some(other)] => LogFork::make(&one, &other, None).ok(),
                _ => None,
            },
        };
        let numbers = [self.views[tree].number, self.views[other].number];
        self.add_fork(
            format!(
                "the log signed two histories: two heads of size {} with two roots, one in {} of bundle {}, one in {} of bundle {}",
                head.size(),
                twin.place(),
                numbers[0],
                head.place(),
                numbers[1]
            ),
            document,
        );
        Ok(())
    }

    fn is_worth_a_try(&mut self) -> bool {
        self.tries += 1;
        self.documents < MAX_FORK_EVIDENCE && self.tries <= MAX_TRIES
    }

    fn notes(&self, heads: [(usize, HeadAt<'_>); 2]) -> Result<[Option<SignedCheckpoint<Verified>>; 2], Unread> {
        let note = |(place, head): (usize, HeadAt<'_>)| {
            let view = &self.views[place];
            view.note(head, self.log).map_err(|error| Unread { number: view.number, error })
        };
        Ok([note(heads[0])?, note(heads[1])?])
    }

    fn add_fork(&mut self, shown: String, document: Option<LogFork>) {
        let document = document.and_then(|document| serde_json::to_value(document).ok());
        let next = match &document {
            Some(_) => "publish the evidence document in this report; anybody can check it",
            None if self.documents > 0 => "publish the evidence documents in this report; they convict the same key",
            None => "fetch the log's tiles again to make evidence that anybody can check; keep all bundles",
        };
        if let Some(document) = document.filter(|_| self.documents < MAX_FORK_EVIDENCE) {
            self.documents += 1;
            self.evidence.push(document);
        }
        self.check.fail("log-fork", &[], || {
            [
                shown,
                String::from("which of the two is the true one, and who besides was shown which"),
                String::from(next),
            ]
        });
    }

    fn unlike(&mut self, number: usize, theirs: usize, size: u64) {
        self.check.fail("root-mismatch", &[], || {
            [
                format!("the entries of bundle {number} are not those that a head of size {size} in bundle {theirs} was signed over, and no head in bundle {number} vouches for them"),
                String::from("who changed them: the log, or whoever made the bundle"),
                format!("audit bundle {number} by itself; fetch it again"),
            ]
        });
    }

    fn omitted(&mut self, number: usize, theirs: usize, head: HeadAt<'_>) {
        self.lists.fail("omitted-head", &[], || {
            [
                format!("a head of size {} in {} of bundle {theirs} is missing from the log's list in bundle {number}, which reaches beyond it", head.size(), head.place()),
                String::from("who left it out: the log, or whoever made the bundle"),
                String::from("fetch the list from the log itself; if it is missing there too, publish both bundles"),
            ]
        });
    }

    fn left_out(&mut self, number: usize, presented: u64, head: HeadAt<'_>) {
        let (place, size) = (head.place(), head.size());
        self.lists.fail("omitted-head", &[], || {
            [
                match size > presented {
                    true => format!("a head of size {size} in {place} of bundle {number} is newer than anything in the log as presented in that bundle ({presented})"),
                    false => format!("a head of size {size} in {place} of bundle {number} is missing from the log's list in that same bundle"),
                },
                String::from("who left it out: the log, or whoever made the bundle"),
                format!("audit bundle {number} by itself: that also makes a document about the head, if a journal holds it"),
            ]
        });
    }

    fn not_comparable(&mut self, numbers: [usize; 2], why: &str) {
        self.check.not_checked("not-comparable", &[], || {
            [
                format!("bundles {} and {} could not be compared: {why}", numbers[0], numbers[1]),
                String::from("whether the log showed one history to both"),
                String::from("fetch both again, with their entries and tiles"),
            ]
        });
    }
}

fn reason(why: &Unproven) -> String {
    crate::quote::plain(&why.to_string())
}
