//! HTTP clients for log and witness, and the gate SDK with its outbox.
//!
//! * [`address`]: where a server is.
//! * [`http`]: requests that no server can hold, and what can go wrong with them, by blame.
//! * [`log`], [`witness`]: what the two serve.
//! * [`wire`]: the JSON that log and clients exchange.

pub mod address;
pub mod calls;
pub mod http;
pub mod log;
pub mod outbox;
pub mod proof;
pub mod sender;
pub mod wire;
pub mod witness;

pub use address::{AddressError, BaseUrl};
pub use calls::{Inclusion, Lookup, Verdict, Wait};
pub use http::{BoundedClient, Fault, FetchError, Refusal, Request, Timeouts};
pub use log::LogClient;
pub use outbox::{GateDescription, Outbox, OutboxError, OutboxView};
pub use proof::{CheckedProof, OfferedProof, ProofFault};
pub use sender::{Patience, SendError, Sender};
pub use witness::WitnessClient;
