//! Gates under load: each signs its own stream, submits it alone or in batches, keeps every answer, and after a crash goes
//! on where the log says it is.
//!
//! A gate here holds everything it ever signed, so it can tell whether the log lost something that it acknowledged, or
//! holds something that was never submitted.

use client::{FetchError, Inclusion, LogClient, Verdict, Wait, wire};
use note::{Checkpoint, KeyKind, KeyName, SigningKey, VerifierKey};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use receipt::{Chain, IssuerName, Receipt, ReceiptId, SeqNo, UnixMillis};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// A receipt that the log promised, and the head under which it did.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// Which.
    pub id: ReceiptId,
    /// Where it is.
    pub index: u64,
    /// The signed head that the proof was checked against.
    pub head: Checkpoint,
}

/// One gate. A clone of it signs a second history.
#[derive(Debug, Clone)]
pub struct Gate {
    key: Arc<SigningKey>,
    name: IssuerName,
    /// All of its stream, as far as it was ever signed and not signed anew; at seq n stands receipt n.
    stream: Vec<Receipt>,
    /// The answers, one a receipt, from seq 0 on.
    acknowledged: Vec<Acknowledged>,
    /// How many of them were answered when they were sent, and not found later.
    promised: usize,
    /// Receipts a request; 1 goes as a single one.
    pub batch: usize,
    /// Bytes of filling in a receipt's body.
    pub filling: usize,
    random: StdRng,
}

/// What all gates together have under way, and have had answered.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicUsize,
    promised: AtomicUsize,
}

impl InFlight {
    /// Requests that have been sent and not answered.
    pub fn count(&self) -> usize {
        self.0.requests.load(Ordering::SeqCst)
    }

    /// Receipts that were answered for.
    pub fn promised(&self) -> usize {
        self.0.promised.load(Ordering::SeqCst)
    }

    /// Waits until so many receipts were answered for and requests are under way again: a slow machine gets the time it needs
    /// to show something.
    pub fn wait_for(&self, promised: usize) {
        let holds = || Ok(self.promised() >= promised && self.count() > 0);
        testkit::stage::wait_for("answers to honest gates", holds).unwrap();
    }
}

impl Gate {
    /// Gate number `number`, which sends `batch` receipts a request. What it does by chance comes from `seed`.
    pub fn new(number: u64, batch: usize, seed: u64) -> Gate {
        let name = KeyName::new(&format!("gate.example/load-{number}")).unwrap();
        let mut secret = [7; 32];
        secret[..8].copy_from_slice(&number.to_be_bytes());
        Gate {
            key: Arc::new(SigningKey::from_seed(name.clone(), KeyKind::Ed25519, secret)),
            name: IssuerName(name),
            stream: Vec::new(),
            acknowledged: Vec::new(),
            promised: 0,
            batch,
            filling: 0,
            random: StdRng::seed_from_u64(seed ^ number),
        }
    }

    /// Its name.
    pub fn name(&self) -> &IssuerName {
        &self.name
    }

    /// Its vkey, for the log's list of issuers.
    pub fn vkey(&self) -> String {
        self.key.verifier().to_string()
    }

    /// How many receipts the log answered for when they were sent.
    pub fn promised(&self) -> usize {
        self.promised
    }

    /// Everything that was acknowledged to it, when it was sent or when it was found after a crash.
    pub fn acknowledged(&self) -> &[Acknowledged] {
        &self.acknowledged
    }

    /// Asks the log where it stands. What was acknowledged must be there, and nothing that this gate did not sign. Of what
    /// is left it sends the same receipts again, or signs others in their place: the log said that it has none.
    pub async fn resume(&mut self, client: &LogClient) {
        let state = client.issuer(&self.name).await.unwrap();
        let next = state.as_ref().map_or(0, |state| state.next_seq) as usize;
        let (acknowledged, signed) = (self.acknowledged.len(), self.stream.len());
        assert!(
            acknowledged <= next,
            "{}: {acknowledged} receipts were acknowledged and the log has {next}",
            self.name
        );
        assert!(next <= signed, "{}: {signed} receipts were signed and the log has {next}", self.name);
        if let Some(last) = next.checked_sub(1) {
            assert_eq!(state.unwrap().head, self.stream[last].id().to_string(), "{}: another head", self.name);
        }
        if self.random.random_bool(0.5) {
            self.stream.truncate(next);
        }
        // What got in unanswered was never promised, and is looked up like anybody's.
        for seq in acknowledged..next {
            let found = client.receipt_at(&self.name, SeqNo(seq as u64)).await.unwrap().unwrap();
            assert_eq!(found.receipt.id(), self.stream[seq].id());
            self.acknowledged.push(answer(&self.stream[seq], &found.inclusion, None));
        }
    }

    /// Sends the next request and keeps what is answered. Proofs are checked against `log`.
    ///
    /// # Errors
    /// What went wrong with the request. What of it got in is then unknown until [`Gate::resume`] asks.
    pub async fn submit(
        &mut self,
        client: &LogClient,
        log: &VerifierKey,
        in_flight: &InFlight,
    ) -> Result<(), FetchError> {
        let first = self.acknowledged.len();
        while self.stream.len() < first + self.batch {
            self.sign_one();
        }
        let sent = &self.stream[first..first + self.batch];
        let flying = Flying::one(in_flight);
        let answers = match sent {
            [receipt] => vec![client.submit(receipt.bytes(), Wait::Integrated).await?],
            receipts => {
                let entries: Vec<&[u8]> = receipts.iter().map(Receipt::bytes).collect();
                let verdicts = client.submit_batch(&entries).await?;
                verdicts.into_iter().map(included).collect()
            }
        };
        drop(flying);
        for (receipt, inclusion) in sent.iter().zip(answers) {
            self.acknowledged.push(answer(receipt, &inclusion, Some(log)));
            self.promised += 1;
        }
        in_flight.0.promised.fetch_add(self.batch, Ordering::SeqCst);
        Ok(())
    }

    /// Submits until a request fails, which must be in a way that a retry may mend.
    pub async fn submit_until_it_fails(mut self, client: LogClient, log: VerifierKey, in_flight: InFlight) -> Gate {
        loop {
            if let Err(error) = self.submit(&client, &log, &in_flight).await {
                assert!(error.may_pass(), "an honest submitter was refused for good: {error}");
                return self;
            }
        }
    }

    fn sign_one(&mut self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
        let now = UnixMillis(now);
        let receipt = match self.stream.last() {
            None => Chain::new(self.name.clone()).open(now, &self.key).unwrap(),
            Some(last) => {
                let (nonce, filling): (u32, String) = (self.random.random(), "x".repeat(self.filling));
                let body = format!("{{\"type\":\"heartbeat\",\"nonce\":{nonce},\"filling\":\"{filling}\"}}");
                Chain::after(last).unwrap().append(body, now, &self.key).unwrap()
            }
        };
        self.stream.push(receipt);
    }
}

/// One request more in flight, until it is dropped.
struct Flying<'a>(&'a InFlight);

impl Flying<'_> {
    fn one(in_flight: &InFlight) -> Flying<'_> {
        in_flight.0.requests.fetch_add(1, Ordering::SeqCst);
        Flying(in_flight)
    }
}

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.0.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

fn included(verdict: Verdict) -> Inclusion {
    match verdict {
        Verdict::Appended(inclusion) | Verdict::Held(inclusion) => inclusion,
        Verdict::Refused(wire::Refused { code, detail, .. }) => {
            panic!("an honest receipt was refused: {code}: {detail}")
        }
        Verdict::Skipped(skipped) => panic!("an honest receipt was skipped: {skipped:?}"),
    }
}

/// What was answered for `receipt`; its proof is checked, against the log's key where that is given.
fn answer(receipt: &Receipt, inclusion: &Inclusion, log: Option<&VerifierKey>) -> Acknowledged {
    let checked = match log {
        Some(log) => inclusion.proof.check(receipt.bytes(), log).map(drop),
        None => inclusion.proof.check_inclusion(receipt.bytes()).map(drop),
    };
    checked.unwrap_or_else(|fault| panic!("{} was acknowledged with a bad proof: {fault}", receipt.id()));
    Acknowledged {
        id: receipt.id(),
        index: inclusion.index.0,
        head: inclusion.proof.proof().checkpoint.claimed().clone(),
    }
}
