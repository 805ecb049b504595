//! `counterfoil outbox status|flush|verify|proofs`.

use crate::arguments::{Outbox as Call, OutboxFlush, OutboxProofs, OutboxStatus, OutboxVerify, WhichOutbox};
use crate::failure::Failure;
use crate::files::write_whole;
use crate::listing::Lister;
use crate::settings::Settings;
use crate::submission::{policy_to_wait_for, sender};
use audit::amount::amount;
use client::outbox::{Status, Verification};
use client::{Outbox, OutboxError, OutboxView};
use note::VerifierKey;
use receipt::SeqNo;
use serde::Serialize;
use service::ExitStatus;
use service::config::Flags;
use service::output::{Output, complain};
use service::progress::Progress;
use std::io::{self, Write};
use std::path::PathBuf;
use tokio::sync::mpsc;

pub(crate) fn run(call: &Call) -> Result<ExitStatus, Failure> {
    match call {
        Call::Status(arguments) => status(arguments),
        Call::Flush(arguments) => flush(arguments),
        Call::Verify(arguments) => verify(arguments),
        Call::Proofs(arguments) => proofs(arguments),
    }
}

impl WhichOutbox {
    fn set_in(&self, flags: Flags) -> Flags {
        flags.set_path("outbox", self.outbox.as_deref())
    }
}

fn status(arguments: &OutboxStatus) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.which.set_in(Flags::new()))?;
    let view = OutboxView::open(&settings.outbox()?)?;
    let status = view.status();
    Output::new(arguments.common.json).print(&status, |out| print_status(out, &status));
    Ok(ExitStatus::Ok)
}

fn print_status(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    writeln!(out, "issuer        {}", status.issuer.as_deref().unwrap_or("(no receipt yet)"))?;
    match &status.log {
        Some(log) => writeln!(out, "log           {} at {}", log.vkey.name(), log.url)?,
        None => writeln!(out, "log           (none named yet)")?,
    }
    writeln!(out, "receipts      {}{}", status.receipts, if status.closed { ", closed" } else { "" })?;
    writeln!(out, "queued        {}", status.queued)?;
    writeln!(out, "sent          {} without an answer", status.sent)?;
    writeln!(out, "acknowledged  {}", status.acknowledged)?;
    match status.dropped {
        0 => writeln!(out, "dropped       0")?,
        dropped => writeln!(
            out,
            "dropped       {} that a crash cut off; never returned, never sent, kept in `dropped`",
            amount(dropped, "beginning of a receipt", "beginnings of receipts")
        )?,
    }
    if status.drops > 0 {
        let drops = status.drops;
        writeln!(
            out,
            "LET THROUGH   {} ran without a receipt (the gate fails open), kept in `drops`",
            amount(drops, "action", "actions")
        )?;
    }
    match status.alarms {
        0 => Ok(()),
        alarms => writeln!(
            out,
            "ALARMS        {alarms}, in `alarms`: the log did what no honest log does; show them to its auditors"
        ),
    }
}

fn flush(arguments: &OutboxFlush) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.which.set_in(arguments.to_log.set_in(Flags::new())))?;
    let policy = policy_to_wait_for(&settings, &arguments.to_log)?;
    let dir = settings.outbox()?;
    let outbox = Outbox::open_to_send(&dir)?;
    let remembered = outbox.log()?;
    let log_key = match (settings.log_key_if_any()?, &remembered) {
        (Some(key), _) => key,
        (None, Some(remembered)) => remembered.vkey.clone(),
        (None, None) => return Err(OutboxError::NoLog(dir).into()),
    };
    let base = match (settings.log_url()?, &remembered) {
        (Some(base), _) => base,
        (None, Some(remembered)) => remembered.url.parse().map_err(Failure::usage)?,
        (None, None) => return Err(OutboxError::NoLog(dir).into()),
    };
    let log = settings.log_at(base)?;
    let mut sending = sender(&settings, &outbox, &log, &log_key)?;
    let lister = Lister::new(
        outbox.clone(),
        sender(&settings, &outbox, &log, &log_key)?,
        policy,
        Output::new(arguments.common.json),
    );
    let (from, to) = (outbox.first_unsent()?.0, outbox.next_seq()?.0);
    crate::runtime()?.block_on(async {
        let (seqs, to_list) = mpsc::unbounded_channel();
        for seq in from..to {
            // The receiver is in our hands.
            let _ = seqs.send(SeqNo(seq));
        }
        drop(seqs);
        let sent = async {
            let sent = sending.flush().await;
            if sent.is_err() {
                lister.give_up();
            }
            sent
        };
        let (sent, listed) = tokio::join!(sent, lister.list(to_list));
        sent?;
        listed
    })?;
    Ok(ExitStatus::Ok)
}

fn verify(arguments: &OutboxVerify) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.which.set_in(Flags::new()))?;
    let issuer = arguments
        .issuer_key
        .as_deref()
        .map(|text| text.parse::<VerifierKey>().map_err(|error| Failure::usage(format!("the issuer's vkey: {error}"))));
    let issuer = issuer.transpose()?;
    let view = OutboxView::open(&settings.outbox()?)?;
    let status = view.status();
    let verification = {
        let progress = Progress::new(status.receipts + status.acknowledged, "receipts and proofs");
        view.verify(issuer.as_ref(), &mut || progress.advance(1))?
    };
    Output::new(arguments.common.json).print(&verification, |out| print_verification(out, &verification));
    Ok(match verification {
        Verification { faults: 1.., .. } => ExitStatus::Failed,
        Verification { receipts: 0, .. } | Verification { unproven: 1.., .. } => ExitStatus::NotChecked,
        Verification { .. } => ExitStatus::Ok,
    })
}

fn print_verification(out: &mut dyn Write, verification: &Verification) -> io::Result<()> {
    for fault in &verification.listed {
        writeln!(out, "seq {}: {}: {}", fault.seq, fault.what, fault.detail)?;
    }
    let Verification { receipts, proofs, unproven, faults, .. } = verification;
    if *receipts == 0 {
        writeln!(out, "the outbox holds no receipt: there was nothing to check")?;
    }
    writeln!(
        out,
        "{} checked, {} checked, {} without a proof, {}",
        amount(*receipts, "receipt", "receipts"),
        amount(*proofs, "proof", "proofs"),
        amount(*unproven, "receipt", "receipts"),
        amount(*faults, "fault", "faults")
    )?;
    match *unproven {
        0 => Ok(()),
        _ => writeln!(
            out,
            "receipts without a proof are not shown to be in the log: `counterfoil outbox flush` sends them"
        ),
    }
}

#[derive(Serialize)]
struct Written {
    proofs: u64,
    out: PathBuf,
}

fn proofs(arguments: &OutboxProofs) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(&arguments.common, arguments.which.set_in(Flags::new()))?;
    let view = OutboxView::open(&settings.outbox()?)?;
    let out = &arguments.out;
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::failed(format!("cannot create {}: {error}", out.display())))?;
    let status = view.status();
    let mut written = Written { proofs: 0, out: out.clone() };
    {
        let progress = Progress::new(status.acknowledged, "proofs");
        for seq in 0..status.acknowledged {
            if let Some(kept) = view.kept(SeqNo(seq))? {
                write_whole(&out.join(format!("{seq}.entry")), kept.receipt.bytes())?;
                write_whole(&out.join(format!("{seq}.tlog-proof")), kept.proof.as_bytes())?;
                written.proofs += 1;
                progress.advance(1);
            }
        }
    }
    Output::new(arguments.common.json).print(&written, |to| {
        writeln!(to, "{}, each beside its entry, in {}", amount(written.proofs, "proof", "proofs"), out.display())
    });
    if status.acknowledged < status.receipts {
        let unproven = status.receipts - status.acknowledged;
        complain(
            crate::PROGRAM,
            format!(
                "{} no proof yet; run `counterfoil outbox flush` first to have all",
                amount(unproven, "receipt has", "receipts have")
            ),
        );
    }
    Ok(ExitStatus::Ok)
}
