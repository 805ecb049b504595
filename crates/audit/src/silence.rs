//! What an issuer's stream says as it goes by and when it ends: when its receipts were issued, how long it said nothing,
//! and up to when anything shows what it did.

use crate::amount::amount;
use crate::completeness::{IssuerSpan, Placed, SpanMs};
use crate::issuer::{LogEnd, meaning};
use crate::quote::plain;
use crate::stream::Stream;
use crate::time::{show_duration, show_time};
use crate::verdict::{Check, ReceiptRef, Severity};
use merkle::LeafIndex;
use receipt::body::Shown;
use receipt::{Body, MAX_AHEAD_MS, Receipt, Refusal, SeqNo, UnixMillis};

impl Stream {
    /// Takes note of a genuine receipt: where it is, when it was issued, how long the issuer had been silent.
    pub(crate) fn follow(&mut self, at: &ReceiptRef, receipt: &Receipt, issued_at_ms: &mut Option<[u64; 2]>) {
        let issued_at = receipt.issued_at();
        self.receipts += 1;
        self.trace.saw(placed(at, issued_at));
        self.held.add(receipt.seq(), receipt.id(), LeafIndex(at.index.unwrap_or(0)));
        let [first, last] = issued_at_ms.unwrap_or([issued_at.0, issued_at.0]);
        *issued_at_ms = Some([first.min(issued_at.0), last.max(issued_at.0)]);
        if let (Body::Open(open), SeqNo(0)) = (receipt.body(), receipt.seq()) {
            self.heartbeat_ms = self.heartbeat_ms.or(open.heartbeat_ms.shown().copied().filter(|millis| *millis > 0));
        }
        self.check_validity(at, issued_at);
        if let (Some((before, since)), Some(heartbeat_ms)) = (&self.last, self.heartbeat_ms) {
            let silent_ms = issued_at.0.saturating_sub(since.0.max(self.audited.from.map_or(0, |from| from.0)));
            if silent_ms > heartbeat_ms {
                self.trace.silent(issued_at.0 - silent_ms, issued_at.0);
                self.check.fail("silent", &[before, at], || {
                    [
                        format!("the issuer said nothing for {} after {}; it is to say something every {}", show_duration(silent_ms), show_time(*since), show_duration(heartbeat_ms)),
                        String::from("whether the gate stood still or its receipts were held back; the times are by its own clock"),
                        String::from("ask the gate's operator what happened in that time"),
                    ]
                });
            }
        }
        self.last = Some((at.clone(), issued_at));
    }

    fn check_validity(&mut self, at: &ReceiptRef, issued_at: UnixMillis) {
        let early = self.audited.from.is_some_and(|from| issued_at < from);
        let late = self.audited.until.is_some_and(|until| issued_at >= until);
        if early || late {
            self.check.fail("outside-validity", &[at], || {
                [
                    format!(
                        "issued at {}, outside the time that the issuers file gives this issuer",
                        show_time(issued_at)
                    ),
                    String::from("that the receipt is not the issuer's: its signature is good"),
                    String::from("find out who used the key at that time; the time is by the gate's own clock"),
                ]
            });
        }
    }

    pub(crate) fn report(&mut self, at: &ReceiptRef, others: &[ReceiptRef], refusal: &Refusal) {
        let receipts: Vec<&ReceiptRef> = others.iter().chain([at]).collect();
        self.check.checked();
        let (not_shown, next) = meaning(refusal.code);
        self.check.fail(refusal.code.as_str(), &receipts, || {
            [plain(&refusal.detail), String::from(not_shown), String::from(next)]
        });
    }

    /// The issuer's check and its lane; `issued` is the time of all issuers' receipts.
    pub(crate) fn finish(mut self, end: &LogEnd<'_>, issued: Option<SpanMs>) -> (Check, IssuerSpan) {
        if self.receipts == 0 && self.check.count("bad-signature") == 0 {
            self.check.not_checked("issuer-absent", &[], || {
                [
                    String::from("the issuers file lists this issuer, and the log holds no receipt of it"),
                    String::from("that it decided nothing: it may write to another log, or to none"),
                    String::from("ask the gate's operator where its receipts go"),
                ]
            });
        }
        let uncovered = self.report_uncovered(end);
        self.check_silence_at_the_end(end);
        let covers = match &self.last {
            None => String::from("no receipt"),
            Some((last, issued_at)) => format!(
                "{}, the last one seq {} at index {}, issued at {}",
                amount(self.receipts, "genuine receipt", "genuine receipts"),
                last.seq.unwrap_or(0),
                last.index.unwrap_or(0),
                show_time(*issued_at)
            ),
        };
        let closed = self.state.is_closed();
        let lane = self.trace.finish(plain(&self.name), closed, self.heartbeat_ms, uncovered, issued);
        (self.check.finish(covers), lane)
    }

    /// From the last receipt on nothing shows what the issuer did: what it issued since may not be in the log yet, or be
    /// kept out of it. That is so for every open stream, and no fault; how long it is must be said all the same.
    fn report_uncovered(&mut self, end: &LogEnd<'_>) -> Option<SpanMs> {
        let (last, since) = self.last.clone().filter(|_| !self.state.is_closed())?;
        let until = end.as_of.map(|(as_of, who)| (self.audited.until.map_or(as_of, |until| until.min(as_of)), who));
        let uncovered = until.filter(|(until, _)| *until > since);
        if until.is_some() && uncovered.is_none() && end.unseen == 0 {
            return None;
        }
        self.check.notice("tail-uncovered", &[&last], || {
            let length = match uncovered {
                Some((until, who)) => format!(
                    "nothing covers the {} after the last receipt, from {} to {} ({who})",
                    show_duration(until.0 - since.0),
                    show_time(since),
                    show_time(until)
                ),
                None => format!("nothing covers the time after the last receipt, issued at {}", show_time(since)),
            };
            let unseen = match end.unseen {
                0 => String::new(),
                unseen => {
                    let further = amount(unseen, "further entry", "further entries");
                    format!("; the log is proven to have {further}, and this issuer may have receipts there")
                }
            };
            [
                format!("{length}{unseen}"),
                String::from(
                    "that the issuer did nothing since: what it issued may not be in the log yet, or be kept out of it",
                ),
                String::from(
                    "ask the gate's operator for its newest receipt, or audit again when the log has a later one of it",
                ),
            ]
        });
        uncovered.map(|(until, _)| SpanMs { from_ms: since.0, to_ms: until.0 })
    }

    /// The gate's clock stamps its receipts, a witness's the head: they may be as far apart as admission allows
    /// ([`MAX_AHEAD_MS`]), and a receipt just issued may not be in the log yet.
    fn check_silence_at_the_end(&mut self, end: &LogEnd<'_>) {
        let (Some((last, since)), Some(heartbeat_ms)) = (self.last.clone(), self.heartbeat_ms) else { return };
        if self.state.is_closed() {
            return;
        }
        let Some((as_of, who)) = end.as_of else {
            self.check.notice("silence-not-judged", &[&last], || {
                [
                    String::from(
                        "no time is known at which the log looked like this, so a silence at its end cannot be told",
                    ),
                    String::from("whether the issuer is silent now"),
                    String::from("give the time of the audit with --at"),
                ]
            });
            return;
        };
        let capped = |time: UnixMillis| self.audited.until.map_or(time, |until| until.min(time));
        let silent_ms = |until: UnixMillis| until.0.saturating_sub(since.0);
        let allowed_ms = heartbeat_ms.saturating_add(MAX_AHEAD_MS);
        let asked = capped(as_of);
        let shown = end.shown_until.map(|shown| capped(shown.min(as_of)));
        if let Some(shown) = shown.filter(|shown| silent_ms(*shown) > allowed_ms) {
            self.trace.silent(since.0, shown.0);
            self.check.fail("silent", &[&last], || {
                [
                    format!(
                        "the last receipt was issued at {}, {} before a quorum last vouched for the head, at {}; the issuer is to say something every {}, and two clocks may be {} apart",
                        show_time(since),
                        show_duration(silent_ms(shown)),
                        show_time(shown),
                        show_duration(heartbeat_ms),
                        show_duration(MAX_AHEAD_MS)
                    ),
                    String::from("whether the gate stands still, or its newest receipts are held back"),
                    String::from("ask the gate's operator for its latest receipt and look for it in the log"),
                ]
            });
        } else if silent_ms(asked) > heartbeat_ms {
            // Whatever came after the bundle was fetched is not in it: that is no silence that anybody could show.
            let severity = if silent_ms(asked) > allowed_ms { Severity::NotChecked } else { Severity::Notice };
            self.check.find("silence-not-judged", severity, &[&last], || {
                [
                    format!(
                        "the last receipt was issued at {}, {} before {} ({who}), and the issuer is to say something every {}; the bundle shows {}",
                        show_time(since),
                        show_duration(silent_ms(asked)),
                        show_time(asked),
                        show_duration(heartbeat_ms),
                        match shown {
                            Some(shown) => format!("what the log held at {}", show_time(shown)),
                            None => String::from("at no time what the log held"),
                        }
                    ),
                    String::from("whether the issuer spoke since"),
                    String::from("audit a newer bundle, or give with --at the time at which this one was fetched"),
                ]
            });
        }
    }
}

/// Where a receipt stands, in its stream, the log and time.
pub(crate) fn placed(at: &ReceiptRef, issued_at: UnixMillis) -> Placed {
    Placed { seq: at.seq.unwrap_or(0), index: at.index.unwrap_or(0), issued_at_ms: issued_at.0 }
}
