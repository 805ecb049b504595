//! Heads that others than the log hold, against its own list: what it signed and leaves out.

use crate::amount::amount;
use crate::bundle::ReadError;
use crate::head::{HeadFacts, Standing, report_fork, report_twins};
use crate::heads::KnownHead;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder};
use crate::witnesses::Witnesses;
use merkle::LeafIndex;

/// Most documents about omitted heads. Each holds a head and a line of a journal; one says where to look.
const MAX_OMITTED_EVIDENCE: u64 = 10;

/// Completes `head/known-heads`: heads that witnesses or kept proofs hold against the log's own list.
pub(crate) fn judge_known(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    witnesses: &Witnesses,
    mut check: CheckBuilder,
    list_is_whole: bool,
    evidence: &mut Vec<serde_json::Value>,
) -> Result<Check, ReadError> {
    let heads = facts.heads;
    let largest = facts.checkpoint.map(|head| head.checkpoint().size.0).max(heads.largest_listed()).unwrap_or(0);
    for head in &heads.unlisted {
        let twin = heads.listed_at(head.size()).iter().find(|listed| listed.root != head.root());
        match facts.standing(head.size(), head.root(), authenticated) {
            Standing::Fork => report_fork(facts, head.size(), &head.found_in, Some(&head.checkpoint), authenticated, &mut check, evidence)?,
            Standing::Mismatch | Standing::Uncovered if twin.is_some() => {
                let listed = twin.map(|twin| heads.listed_note(facts.bundle, facts.resources, *twin, facts.log)).transpose()?.flatten();
                if let Some(listed) = listed {
                    report_twins(head.size(), Some((&head.checkpoint, &listed)), &mut check, evidence);
                }
            }
            _ if head.size() > largest || list_is_whole => {
                let made = match check.count("omitted-head") < MAX_OMITTED_EVIDENCE {
                    true => omitted_head(facts, witnesses, head)?,
                    false => None,
                };
                report_omitted(head, largest, made.is_some(), &mut check);
                evidence.extend(made);
            }
            Standing::OnTree => {}
            Standing::Mismatch | Standing::Uncovered => check.not_checked("head-uncovered", &[], || {
                [
                    format!("a head in {} of size {} cannot be compared: the bundle lacks the list of heads or the entries for it", head.found_in, head.size()),
                    String::from("whether it lies on the log's tree"),
                    String::from("fetch the bundle again"),
                ]
            }),
        }
    }
    report_alone(facts, witnesses, &mut check);
    let offered = facts.checkpoint.map_or(0, |head| head.checkpoint().size.0);
    if heads.largest_other > offered && heads.largest_other <= largest {
        check.notice("offered-behind", &[], || {
            [
                format!("log/checkpoint has size {offered}, and somebody holds a head of size {}, which the log's list has too", heads.largest_other),
                String::from("that anything was left out: the log may have moved on while the bundle was fetched"),
                String::from("nothing to do; the entries were judged up to the newest listed head"),
            ]
        });
    }
    if heads.unlisted_more > 0 && !list_is_whole {
        check.not_checked("head-uncovered", &[], || {
            [
                format!(
                    "{} further heads cannot be looked up: the bundle lacks the log's list of heads, or pages of it",
                    heads.unlisted_more
                ),
                String::from("whether they stand in that list, and on the log's tree"),
                String::from("fetch the bundle again"),
            ]
        });
    } else if heads.unlisted_more > 0 {
        check.fail("omitted-head", &[], || {
            [
                format!("{} further sightings of heads that are missing from the log's list", heads.unlisted_more),
                String::from("who left them out: the log, or whoever made the bundle"),
                String::from("fetch the list from the log itself"),
            ]
        });
    }
    Ok(check.finish(format!(
        "{} from witnesses, journals and kept proofs looked up in the log's list; the largest has size {}",
        amount(heads.others, "head", "heads"),
        heads.largest_other
    )))
}

/// A document about a head that the list lacks, if a journal holds it whole.
fn omitted_head(
    facts: &HeadFacts<'_>,
    witnesses: &Witnesses,
    head: &KnownHead,
) -> Result<Option<serde_json::Value>, ReadError> {
    let Some((witness, line)) = head.line else { return Ok(None) };
    let Some(journal) = witnesses.journals.get(witness).and_then(Option::as_ref) else { return Ok(None) };
    let document = journal.omitted_head(facts.bundle, facts.log, LeafIndex(line))?;
    Ok(document.and_then(|document| serde_json::to_value(document).ok()))
}

fn report_omitted(head: &KnownHead, largest: u64, made: bool, check: &mut CheckBuilder) {
    check.fail("omitted-head", &[], || {
        let (found_in, size) = (&head.found_in, head.size());
        [
            match size > largest {
                true => format!("a head in {found_in} has size {size}, newer than anything in the log as presented ({largest})"),
                false => format!("a head in {found_in} of size {size} was signed by the log and is not in its own list of heads"),
            },
            String::from("who left it out: the log, or whoever made the bundle"),
            String::from(match made {
                true => "look for it in /heads at the log's own address; if it is missing there, publish the evidence document in this report",
                false => "fetch the list from the log's own address; if the head is missing there, publish it",
            }),
        ]
    });
}

/// `head-seen-alone`: a head that nothing shows but one witness may be the sign of a story told to that one alone, or of
/// a list that lacks it; which of the two it is, the other findings about it say.
fn report_alone(facts: &HeadFacts<'_>, witnesses: &Witnesses, check: &mut CheckBuilder) {
    for (number, watch) in witnesses.watches.iter().enumerate() {
        let sizes: Vec<u64> = facts.heads.seen_alone_by(number).map(KnownHead::size).collect();
        let Some(smallest) = sizes.iter().min() else { continue };
        check.notice("head-seen-alone", &[], || {
            [
                format!(
                    "witness {} alone shows {}, the smallest of size {smallest}",
                    quoted(watch.name.as_str()),
                    amount(sizes.len() as u64, "head that the log signed", "heads that the log signed")
                ),
                String::from("whether others were shown another one, or none"),
                String::from("ask the other witnesses for what they saw at the time"),
            ]
        });
    }
}
