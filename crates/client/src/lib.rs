//! HTTP clients for log and witness, and the gate SDK with its outbox.
//!
//! ```no_run
//! # use counterfoil_client as client;
//! # async fn gate(key: note::SigningKey, log_key: note::VerifierKey) -> Result<(), Box<dyn std::error::Error>> {
//! use client::{BoundedClient, GateDescription, LogClient, Outbox, Patience, Sender, Timeouts};
//! # let now = || receipt::UnixMillis(0);
//!
//! let outbox = Outbox::open("outbox".as_ref(), key, GateDescription::default())?;
//! let log = LogClient::new("https://log.example".parse()?, BoundedClient::new(Timeouts::default())?);
//! let mut sender = Sender::new(outbox.clone(), log, log_key, Patience::default(), std::sync::Arc::new(now))?;
//! tokio::spawn(async move { sender.run(std::future::pending()).await });
//!
//! // Signed, chained and on disk when it returns; sent and proved by the sender, in its own time.
//! let queued = outbox.append(r#"{"type":"decision","request_id":"r-1","decision":"deny","authenticated":true,"executes":"none"}"#, now())?;
//! println!("{} {}", queued.seq, queued.id);
//! # Ok(())
//! # }
//! ```
//!
//! * [`address`]: where a server is.
//! * [`history`]: what the log shows of a subject, with proof.
//! * [`http`]: requests that no server can hold, and what can go wrong with them, by blame.
//! * [`reach`]: which addresses are connected to.
//! * [`log`], [`calls`], [`witness`]: what the two serve, and what a log takes.
//! * [`add_checkpoint`]: how a log pushes its head to a witness of any make.
//! * [`proof`]: proofs as offered, and the one way in which they become checked.
//! * [`outbox`], [`sender`]: receipts that survive any crash, and how they get to the log.
//! * [`gate`]: what a gate's author uses: decisions, and scopes that end in outcomes.
//! * [`wire`]: the JSON that log and clients exchange.

pub mod add_checkpoint;
pub mod address;
mod amount;
pub mod calls;
pub mod gate;
pub mod history;
pub mod http;
pub mod log;
pub mod outbox;
pub mod proof;
pub mod reach;
pub mod sender;
pub mod wire;
pub mod witness;

pub use add_checkpoint::Pushed;
pub use address::{AddressError, BaseUrl};
pub use calls::{Inclusion, Lookup, Verdict, Wait};
pub use gate::{Gate, GateConfig};
pub use http::{BoundedClient, Fault, FetchError, Refusal, Request, Timeouts};
pub use log::LogClient;
pub use outbox::{GateDescription, Outbox, OutboxError, OutboxView};
pub use proof::{CheckedProof, OfferedProof, ProofCheck, ProofFault};
pub use reach::Reach;
pub use sender::{Patience, SendError, Sender};
pub use witness::WitnessClient;
