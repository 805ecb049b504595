//! `counterfoil submit` and `counterfoil import`: bodies into the outbox, receipts into the log, one line a receipt.
//!
//! ```text
//! reader   input ──> is its receipt in the outbox already? ── yes ──────────────┐
//!                      │ no                                                     │
//!                      └──> sign, chain, fdatasync ──> its seq ──> queue of seqs┤
//! sender   outbox ──> log, in batches, until everything is acknowledged         │
//! lister   takes the seqs in order, waits for each one's proof (and quorum), prints
//! ```
//!
//! The three run at once: a pipe that stays open has its lines sent and listed as they come.

use crate::arguments::{Import, Submit, ToLog, WaitFor};
use crate::clock::now;
use crate::failure::Failure;
use crate::input::{Input, InputBody, source_name};
use crate::listing::Lister;
use crate::settings::Settings;
use audit::amount::amount;
use client::outbox::{BodyFault, GateDescription, SubmittedInput};
use client::{Outbox, OutboxError, SendError, Sender};
use note::Policy;
use receipt::{Body, SeqNo, ijson};
use service::ExitStatus;
use service::config::Flags;
use service::output::{Output, complain};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Unknown body types told of in one call: who has more of them means them, and a pipe may run for ever.
const MAX_STRANGE_TYPES: usize = 32;

pub(crate) fn submit(arguments: &Submit) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.gate.set_in(arguments.to_log.set_in(Flags::new())))?;
    let input = Input::lines(&arguments.file)?;
    let source = source_name("submit", arguments.source.as_deref(), &arguments.file);
    run(&settings, &arguments.to_log, input, source, arguments.gate.again, Output::new(arguments.common.json))
}

pub(crate) fn import(arguments: &Import) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.gate.set_in(arguments.to_log.set_in(Flags::new())))?;
    let input = Input::records(&arguments.format, &arguments.file)?;
    let source = source_name(&format!("import {}", arguments.format), arguments.source.as_deref(), &arguments.file);
    run(&settings, &arguments.to_log, input, source, arguments.gate.again, Output::new(arguments.common.json))
}

/// The policy to wait for, where that was asked for.
pub(crate) fn policy_to_wait_for(settings: &Settings, to_log: &ToLog) -> Result<Option<Policy>, Failure> {
    match to_log.wait {
        WaitFor::Integrated => Ok(None),
        WaitFor::Cosigned => match settings.policy()? {
            Some(policy) => Ok(Some(policy)),
            None => Err(Failure::usage(
                "--wait cosigned needs to know which witnesses; name a tlog-policy file with --policy",
            )),
        },
    }
}

/// A sender of `outbox` with the settings' patience.
pub(crate) fn sender(
    settings: &Settings,
    outbox: &Outbox,
    log: &client::LogClient,
    log_key: &note::VerifierKey,
) -> Result<Sender, Failure> {
    Ok(Sender::new(outbox.clone(), log.clone(), log_key.clone(), settings.patience(), Arc::new(now))?)
}

fn run(
    settings: &Settings,
    to_log: &ToLog,
    input: Input,
    source: Option<String>,
    again: bool,
    output: Output,
) -> Result<ExitStatus, Failure> {
    let policy = policy_to_wait_for(settings, to_log)?;
    let (log, log_key, key, dir) = (settings.log()?, settings.log_key()?, settings.key()?, settings.outbox()?);
    let gate = GateDescription {
        gate: Some(concat!("counterfoil ", env!("CARGO_PKG_VERSION")).to_owned()),
        heartbeat_ms: settings.heartbeat_ms(),
        policy_digest: None,
    };
    let outbox = Outbox::open(&dir, key, gate)?;
    let mut sending = sender(settings, &outbox, &log, &log_key)?;
    let lister = Lister::new(outbox.clone(), sender(settings, &outbox, &log, &log_key)?, policy, output);
    let reader = Reader::new(outbox, input, source, again)?;
    let runtime = crate::runtime()?;
    let ended = runtime.block_on(async {
        // Before anything is signed: an outbox that is an old copy would sign seqs again that the log holds.
        match sending.compare().await {
            Err(SendError::Log(error)) if error.may_pass() => {
                complain(crate::PROGRAM, format!("{error}; receipts are kept in the outbox until the log answers"))
            }
            compared => compared?,
        }
        read_send_list(reader, sending, lister).await
    });
    // A reader that waits for standard input is not waited for.
    runtime.shutdown_background();
    ended
}

async fn read_send_list(mut reader: Reader, mut sending: Sender, lister: Lister) -> Result<ExitStatus, Failure> {
    // Unbounded: while the log is away lines must still become durable, and the outbox holds as much for each of them.
    let (seqs, to_list) = mpsc::unbounded_channel();
    let (done, is_done) = watch::channel(false);
    let mut appended = reader.outbox.watch_appended();
    let reading = tokio::task::spawn_blocking(move || {
        let read = reader.read_all(&seqs);
        done.send_replace(true);
        (reader.known, read)
    });
    let sent = async {
        let sent = send_until_done(&mut sending, &mut appended, is_done).await;
        if sent.is_err() {
            lister.give_up();
        }
        sent
    };
    let (sent, listed) = tokio::join!(sent, lister.list(to_list));
    // Without waiting for a reader that may wait for standard input.
    sent?;
    let (known, read) =
        reading.await.map_err(|error| Failure::failed(format!("the input could not be read to its end: {error}")))?;
    if known > 0 {
        complain(
            crate::PROGRAM,
            format!(
                "{} in the outbox already and not signed again (--again signs them once more)",
                amount(known, "of the lines was", "of the lines were")
            ),
        );
    }
    read.and(listed).map(|()| ExitStatus::Ok)
}

/// Sends while there is input, however long the log is away; once there is no more, with patience.
async fn send_until_done(
    sending: &mut Sender,
    appended: &mut watch::Receiver<u64>,
    mut is_done: watch::Receiver<bool>,
) -> Result<(), SendError> {
    loop {
        appended.mark_unchanged();
        let was_done = *is_done.borrow();
        match sending.flush().await {
            Ok(_) if was_done => return Ok(()),
            Ok(_) => {}
            Err(SendError::GaveUp { last, .. }) if !*is_done.borrow() => {
                complain(crate::PROGRAM, format!("{last}; still trying while there is input"))
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            // Both fail only when the other end is gone, and then it is done.
            _ = appended.changed() => {}
            _ = is_done.wait_for(|done| *done) => {}
        }
    }
}

/// Takes bodies into the outbox and hands on their seqs.
struct Reader {
    outbox: Outbox,
    input: Input,
    source: Option<String>,
    /// What the outbox has of this input, until a line differs.
    submitted: Option<SubmittedInput>,
    /// Bodies read.
    place: u64,
    /// Of these, those whose receipts were in the outbox.
    known: u64,
    /// Body types that nobody knows and that were told of.
    strange_types: BTreeSet<String>,
    /// Whether the outbox knows that the receipts from here on are this input's.
    begun: bool,
}

impl Reader {
    fn new(outbox: Outbox, input: Input, source: Option<String>, again: bool) -> Result<Self, Failure> {
        let submitted = match &source {
            Some(source) if !again => Some(outbox.submitted_input(source)?),
            _ => None,
        };
        Ok(Self { outbox, input, source, submitted, place: 0, known: 0, strange_types: BTreeSet::new(), begun: false })
    }

    fn read_all(&mut self, seqs: &mpsc::UnboundedSender<SeqNo>) -> Result<(), Failure> {
        loop {
            let chunk = self.input.next_chunk()?;
            if chunk.is_empty() {
                return Ok(());
            }
            let known = self.pass_known(&chunk)?;
            let (taken, outcome) = self.take(&chunk[known.len()..]);
            for seq in known.into_iter().chain(taken) {
                if seqs.send(seq).is_err() {
                    // Nobody lists any more: the sender failed, and says why.
                    return Ok(());
                }
            }
            outcome?;
        }
    }

    /// The seqs of the first lines of `chunk` whose receipts the outbox has.
    fn pass_known(&mut self, chunk: &[InputBody]) -> Result<Vec<SeqNo>, Failure> {
        let mut seqs = Vec::new();
        while let (Some(submitted), Some(line)) = (&self.submitted, chunk.get(seqs.len())) {
            match submitted.seq_of(self.place) {
                Some(seq) if self.outbox.says(seq, &line.body)? => {
                    seqs.push(seq);
                    self.place += 1;
                    self.known += 1;
                }
                // From here on everything is new.
                _ => self.submitted = None,
            }
        }
        Ok(seqs)
    }

    /// Signs the lines. Those before a bad one are signed.
    fn take(&mut self, lines: &[InputBody]) -> (Vec<SeqNo>, Result<(), Failure>) {
        let Some(first) = lines.first() else { return (Vec::new(), Ok(())) };
        let taken = self.begin(&first.body).and_then(|()| self.append(lines));
        let bad = match taken {
            Ok(seqs) => {
                self.tell_strange_types(lines);
                return (seqs, Ok(()));
            }
            Err(OutboxError::Body { place, reason, .. }) => (place, reason),
            Err(error) => return (Vec::new(), Err(error.into())),
        };
        let (place, reason) = bad;
        let good = lines.get(..place).unwrap_or_default();
        match self.append(good) {
            Ok(seqs) => {
                self.tell_strange_types(good);
                let refused = lines.get(place).map(|bad| refused(bad, &reason, self.place > 0));
                (seqs, Err(refused.unwrap_or_else(|| Failure::unreadable(&reason))))
            }
            Err(error) => (Vec::new(), Err(error.into())),
        }
    }

    fn begin(&mut self, first: &str) -> Result<(), OutboxError> {
        if !self.begun {
            self.outbox.ensure_open_before(first, now())?;
            if let Some(source) = &self.source {
                self.outbox.begin_input(source, self.place)?;
            }
            self.begun = true;
        }
        Ok(())
    }

    fn append(&mut self, lines: &[InputBody]) -> Result<Vec<SeqNo>, OutboxError> {
        let bodies: Vec<&str> = lines.iter().map(|line| line.body.as_str()).collect();
        let queued = self.outbox.append_all(&bodies, now())?;
        self.place += queued.len() as u64;
        Ok(queued.into_iter().map(|queued| queued.seq).collect())
    }

    /// Says once of each type that this version does not know where it first stands: it may be a misspelled one, which no
    /// auditor counts as what it was meant to be.
    fn tell_strange_types(&mut self, lines: &[InputBody]) {
        for line in lines {
            if self.strange_types.len() == MAX_STRANGE_TYPES {
                return;
            }
            let Ok(members) = ijson::parse_members(&line.body) else { continue };
            let Ok(Body::Unknown { type_name, .. }) = Body::from_members(members) else { continue };
            if !self.strange_types.contains(&type_name) {
                let said = format!("type {type_name:?} is not one this version knows; it is logged as it stands");
                complain(crate::PROGRAM, format!("line {}: {said}", line.line));
                self.strange_types.insert(type_name);
            }
        }
    }
}

/// `line` cannot become a receipt; `follows` says whether lines before it did.
fn refused(line: &InputBody, reason: &BodyFault, follows: bool) -> Failure {
    let is_cut_off = serde_json::from_str::<serde::de::IgnoredAny>(&line.body).is_err_and(|error| error.is_eof());
    let reason = match is_cut_off {
        true => "the line ends before its JSON does; one object must stand on one line".to_owned(),
        false => reason.to_string(),
    };
    let before = if follows { "the lines before it are submitted: " } else { "" };
    Failure::unreadable(format!("line {}: {reason}; {before}put it right and run the same call again", line.line))
}
