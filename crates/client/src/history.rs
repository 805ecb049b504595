//! History with proof: what the log shows of a subject, so that a gate judges by that and not by its own memory.
//!
//! ```text
//! checkpoint ── signed by the log? cosigned by a quorum, lately? ──┐
//! entries ──── hashed into one tree, none left out ── its root? ───┴─ the subject's decisions, and what is pending here
//! ```
//!
//! A follower reads *all* entries of the log and compares the root over them with the one that the log signed and witnesses
//! cosigned: so no entry can be hidden from it, a gate that lost its state or resets it is told what it once decided, and a
//! log that shows two histories is caught by the tiles it serves. It keeps the largest head that it ever believed, durably,
//! and believes none that does not contain it.
//!
//! * [`Item`], [`SubjectHistory`]: what is known of subjects, and under which head.
//! * [`HistoryMode`]: what to do where no head can be believed.
//! * The rest is pure (`fold`, `index`, `witnessed`, `pending`) but for `follow`, which fetches, and `keep`, which writes.

mod error;
mod fold;
mod follow;
mod index;
mod keep;
mod pending;
mod witnessed;

pub use error::HistoryError;
pub use index::{Item, MAX_ASKED, MAX_ITEMS, MAX_MENTIONS, MAX_NAME_BYTES, MAX_SUBJECTS};
pub use witnessed::NotWitnessed;

use crate::gate::{AsOf, PriorHistory};
use crate::log::LogClient;
use crate::outbox::Outbox;
use crate::sender::Clock;
use follow::Follower;
use index::{Found, Question};
use keep::Folder;
use merkle::{LeafIndex, RootHash, TreeSize, prove_inclusion};
use note::{Policy, SignedCheckpoint, Verified, VerifierKey, proof_text};
use pending::Pending;
use receipt::{IssuerName, ReceiptId, SeqNo, UnixMillis};
use serde_json::{Map, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;
use witnessed::{is_fresh, witnessed_at};

/// How old a quorum's word may be: as long as witnesses may be away for a moment, and too short to do much with a log that
/// stands still.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(600);

/// How long to wait for the witnesses of a head that is new: they are asked every 200 ms, and one round takes less than a
/// second.
pub const DEFAULT_QUORUM_WAIT: Duration = Duration::from_secs(2);

/// How long a call may take when nobody says otherwise: as long as a caller of a service waits before it gives up. A log of
/// a million entries takes longer when it is read for the first time; calls go on where the last one stopped.
pub const DEFAULT_TOTAL: Duration = Duration::from_secs(30);

/// Between two looks whether the witnesses have cosigned.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What happens where no fresh witnessed head can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryMode {
    /// No history: an error.
    #[default]
    FailClosed,
    /// The history under the best head there is, or none, and the receipt says so (`"witnessed":false`).
    FailOpen,
}

/// Whose decisions make a subject's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Those of every issuer in the log.
    #[default]
    All,
    /// This gate's own.
    Own,
}

/// How histories are read, where that is a matter of choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// What happens where no head can be believed.
    pub mode: HistoryMode,
    /// Whose decisions count.
    pub whose: Whose,
    /// How old the word of a quorum may be.
    pub max_age: Duration,
    /// How long to wait for it.
    pub quorum_wait: Duration,
    /// How long a call may take in all.
    pub total: Duration,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            mode: HistoryMode::default(),
            whose: Whose::default(),
            max_age: DEFAULT_MAX_AGE,
            quorum_wait: DEFAULT_QUORUM_WAIT,
            total: DEFAULT_TOTAL,
        }
    }
}

/// What a follower is made of.
pub struct HistoryConfig {
    /// Where it keeps what it knows: `history/` in the outbox's directory.
    pub dir: PathBuf,
    /// The log.
    pub log: LogClient,
    /// Its key.
    pub log_key: VerifierKey,
    /// Whose cosignatures make a head believed.
    pub policy: Policy,
    /// How old they may be.
    pub max_age: Duration,
    /// How long to wait for them.
    pub quorum_wait: Duration,
    /// How long a call may take in all.
    pub total: Duration,
    /// What happens where there are none.
    pub mode: HistoryMode,
    /// Whose decisions count.
    pub whose: Whose,
    /// Where the time comes from.
    pub clock: Clock,
}

/// A follower of one log.
pub struct History {
    follower: Follower,
    policy: Policy,
    max_age_ms: u64,
    quorum_wait: Duration,
    mode: HistoryMode,
    whose: Whose,
    clock: Clock,
    /// The largest head that a quorum vouched for, and when.
    witnessed: Option<(SignedCheckpoint<Verified>, UnixMillis)>,
    pending: Pending,
    /// The alarm that was kept last: what, and sizes.
    alarmed: Option<(&'static str, u64, u64)>,
}

/// What is known of some subjects.
#[derive(Clone, Debug)]
pub struct SubjectHistory {
    /// The subjects, as they were asked for.
    pub subjects: Vec<String>,
    /// Allowed actions with a class that the log shows under the head, in its order; none stands here twice.
    pub logged: Vec<Item>,
    /// The same of this gate's own that the log does not show under the head yet, in order of seq.
    pub pending: Vec<Item>,
    /// Subject, and the newest receipt that names it, denials too; for those that any names.
    pub heads: Vec<(String, ReceiptId)>,
    /// How much of the log this is.
    pub size: TreeSize,
    /// The root over that.
    pub root: RootHash,
    /// When a quorum vouched for that head; `None` where none did, lately enough.
    pub witnessed_at: Option<UnixMillis>,
    /// Why not.
    pub why: Option<String>,
    /// This gate's next seq when it was asked: what it decided since is not in here.
    pub next_seq: SeqNo,
    head: Option<SignedCheckpoint<Verified>>,
}

impl SubjectHistory {
    /// Whether fresh witnesses vouch for it.
    pub fn is_witnessed(&self) -> bool {
        self.witnessed_at.is_some()
    }

    /// The classes to judge by: logged, then pending.
    pub fn classes(&self) -> Vec<&str> {
        self.logged.iter().chain(&self.pending).map(|item| item.action_class.as_str()).collect()
    }

    /// What a decision that was judged by it states (`prior_action_classes`, `prior_heads`, `history`).
    pub fn prior(&self) -> PriorHistory {
        PriorHistory {
            action_classes: self.classes().into_iter().map(str::to_owned).collect(),
            heads: self.heads.iter().map(|(subject, id)| (subject.clone(), id.to_string())).collect(),
            size: self.size.0,
            root: self.root.0.to_base64(),
            witnessed: self.is_witnessed(),
            why: self.why.clone(),
            as_of: Some(AsOf { subjects: self.subjects.clone(), next_seq: self.next_seq.0 }),
        }
    }
}

impl History {
    /// A follower that knows what was kept in its directory, and has not looked at the log yet.
    ///
    /// # Errors
    /// [`HistoryError::Disk`], [`HistoryError::Damaged`].
    pub fn open(config: HistoryConfig) -> Result<Self, HistoryError> {
        let follower = Follower::open(config.log, config.log_key, Folder::open(&config.dir)?, config.total)?;
        Ok(Self {
            follower,
            policy: config.policy,
            max_age_ms: u64::try_from(config.max_age.as_millis()).unwrap_or(u64::MAX),
            quorum_wait: config.quorum_wait,
            mode: config.mode,
            whose: config.whose,
            clock: config.clock,
            witnessed: None,
            pending: Pending::default(),
            alarmed: None,
        })
    }

    /// What the log shows of these subjects, and what is pending in `outbox`.
    ///
    /// # Errors
    /// [`HistoryError`]; of those that the log is to blame for only in [`HistoryMode::FailClosed`].
    pub async fn of(&mut self, subjects: &[&str], outbox: &Outbox) -> Result<SubjectHistory, HistoryError> {
        self.of_since(Instant::now(), subjects, outbox).await
    }

    /// The same, for a call that came at `asked` and waited for others.
    pub(crate) async fn of_since(
        &mut self,
        asked: Instant,
        subjects: &[&str],
        outbox: &Outbox,
    ) -> Result<SubjectHistory, HistoryError> {
        self.follower.begin(asked);
        if subjects.len() > MAX_ASKED {
            return Err(HistoryError::TooManySubjects(subjects.len()));
        }
        let looked = self.look().await;
        if let Err(error) = &looked {
            self.keep_alarm(error, outbox);
        }
        let believed = match looked {
            Ok(())
            | Err(
                HistoryError::Log(_)
                | HistoryError::TooSlow { .. }
                | HistoryError::NotWitnessed(_)
                | HistoryError::RolledBack { .. },
            ) => match self.fresh() {
                Some(fresh) => Ok(fresh),
                None => Err(looked.err().unwrap_or_else(|| self.stale())),
            },
            Err(error) => Err(error),
        };
        let believed = believed.and_then(|fresh| match self.follower.fold.index.is_full() {
            true => Err(HistoryError::TooLarge),
            false => Ok(fresh),
        });
        let name = outbox.issuer()?;
        match believed {
            Ok((head, at)) => {
                let (size, root) = (head.checkpoint().size, head.checkpoint().root);
                self.answer(
                    subjects,
                    outbox,
                    name.as_ref(),
                    Under { size, root, at: Some(at), why: None, head: Some(head) },
                )
            }
            Err(error) if self.mode == HistoryMode::FailOpen && error.is_of_the_log() => {
                let (size, root) = (self.follower.fold.size(), self.follower.fold.root());
                let head = self.follower.largest.clone().filter(|head| head.checkpoint().size == size);
                let why = Some(error.to_string());
                self.answer(subjects, outbox, name.as_ref(), Under { size, root, at: None, why, head })
            }
            Err(error) => Err(error),
        }
    }

    /// The proof (`tlog-proof`) that an item of `history` is in the log, under the head that the history stands under.
    ///
    /// # Errors
    /// [`HistoryError::NoSuchEntry`], and what fetching tiles may bring.
    pub async fn proof(&self, history: &SubjectHistory, item: &Item) -> Result<String, HistoryError> {
        let index = item.index.unwrap_or(LeafIndex(u64::MAX));
        let no_such = HistoryError::NoSuchEntry { index: index.0, size: history.size.0 };
        let Some(head) = history.head.as_ref().filter(|_| index.0 < history.size.0) else { return Err(no_such) };
        let (size, root) = (head.checkpoint().size, head.checkpoint().root);
        let tiles = self.follower.log().tiles(&merkle::tile::tiles_for_inclusion(index, size)).await?;
        let inclusion = prove_inclusion(&tiles, index, size).map_err(|why| HistoryError::Unproven(why.to_string()))?;
        let shown = inclusion.verify(&item.id.0, index, size, &root);
        shown.map_err(|why| HistoryError::Unproven(why.to_string()))?;
        Ok(proof_text(index, &inclusion, head))
    }

    /// Entries of the log that were read and that the rule of admission refuses: a log that took them must not.
    pub fn refused_entries(&self) -> u64 {
        self.follower.fold.refused()
    }

    /// How much of the log was read.
    pub fn size(&self) -> TreeSize {
        self.follower.fold.size()
    }

    /// Looks at the log until it shows a head that fresh witnesses vouch for, for as long as they may take; once, where one is
    /// believed already.
    async fn look(&mut self) -> Result<(), HistoryError> {
        let begun = Instant::now();
        loop {
            let looked = self.look_once().await;
            let is_too_early = matches!(looked, Err(HistoryError::NotWitnessed(_)));
            if !is_too_early || self.fresh().is_some() || begun.elapsed() >= self.quorum_wait {
                return looked;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn look_once(&mut self) -> Result<(), HistoryError> {
        let head = self.follower.offered().await?;
        self.follower.believe(&head).await?;
        let now = (self.clock)();
        let at = witnessed_at(&head, &self.policy, now).map_err(HistoryError::NotWitnessed)?;
        if self.witnessed.as_ref().is_none_or(|(held, _)| held.checkpoint().size <= head.checkpoint().size) {
            self.witnessed = Some((head, at));
        }
        is_fresh(at, now, self.max_age_ms).map_err(HistoryError::NotWitnessed)
    }

    /// The witnessed head, where it is fresh and everything under it was read.
    fn fresh(&self) -> Option<(SignedCheckpoint<Verified>, UnixMillis)> {
        let (head, at) = self.witnessed.as_ref()?;
        let is_read = head.checkpoint().size <= self.follower.fold.size();
        (is_read && is_fresh(*at, (self.clock)(), self.max_age_ms).is_ok()).then(|| (head.clone(), *at))
    }

    /// Why there is no fresh head although the last look was good: time has passed.
    fn stale(&self) -> HistoryError {
        let at = self.witnessed.as_ref().map_or(UnixMillis(0), |(_, at)| *at);
        let age = is_fresh(at, (self.clock)(), self.max_age_ms);
        HistoryError::NotWitnessed(age.err().unwrap_or(NotWitnessed::TooFew(0)))
    }

    fn answer(
        &mut self,
        subjects: &[&str],
        outbox: &Outbox,
        own: Option<&IssuerName>,
        under: Under,
    ) -> Result<SubjectHistory, HistoryError> {
        let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let fold = &self.follower.fold;
        let next_seq = self.pending.catch_up(outbox, own.and_then(|own| fold.state(own)))?;
        let issuer = if self.whose == Whose::Own { own } else { None };
        let nobody = self.whose == Whose::Own && own.is_none();
        let logged = match nobody {
            true => Found::default(),
            false => fold.index.find(Question { subjects: &subjects, below: under.size, issuer }),
        };
        let beyond = match own {
            Some(own) => fold.index.beyond(Question { subjects: &subjects, below: under.size, issuer: Some(own) }),
            None => Found::default(),
        };
        let own = self.pending.on(&subjects);
        // The newest says it: what is only here, else this gate's own behind the head, else what the log shows under it.
        let newest = |subject: &String| {
            let all = own.heads.iter().chain(&beyond.heads).chain(&logged.heads);
            all.clone().find(|(of, _)| of == subject).cloned()
        };
        Ok(SubjectHistory {
            heads: subjects.iter().filter_map(newest).collect(),
            logged: logged.items,
            pending: beyond.items.into_iter().chain(own.items).collect(),
            size: under.size,
            root: under.root,
            witnessed_at: under.at,
            why: under.why,
            next_seq,
            head: under.head,
            subjects,
        })
    }

    /// Keeps an alarm, once for each pair of heads.
    fn keep_alarm(&mut self, error: &HistoryError, outbox: &Outbox) {
        let what = match error {
            HistoryError::Fork { held, offered, .. } => ("log-fork", *held, *offered),
            HistoryError::RolledBack { held, offered } => ("log-rolled-back", *held, *offered),
            _ => return,
        };
        if self.alarmed == Some(what) {
            return;
        }
        self.alarmed = Some(what);
        tracing::error!(%error, code = what.0, "the log does not honour what it showed");
        let mut alarm = Map::new();
        alarm.insert("at".to_owned(), json!((self.clock)()));
        alarm.insert("what".to_owned(), json!(what.0));
        alarm.insert("log".to_owned(), json!(self.follower.log_key()));
        alarm.insert("detail".to_owned(), json!(error.to_string()));
        let held = self.follower.largest.as_ref().map(|head| json!(head.note().to_string()));
        alarm.extend(held.map(|held| ("held".to_owned(), held)));
        if let HistoryError::Fork { evidence, .. } = error {
            alarm.insert("evidence".to_owned(), json!(evidence));
        }
        if let Err(kept) = outbox.keep_alarm(&alarm) {
            tracing::error!(%kept, alarm = %error, "an alarm could not be kept");
        }
    }
}

/// What an answer stands under.
struct Under {
    size: TreeSize,
    root: RootHash,
    at: Option<UnixMillis>,
    why: Option<String>,
    head: Option<SignedCheckpoint<Verified>>,
}
