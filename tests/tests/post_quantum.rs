//! A log, a witness with both kinds of key and a verifier, as programs: a policy that requires both, one that either
//! satisfies, and a witness that loses its second key.
#![allow(clippy::unwrap_used, clippy::panic)]

use client::{BoundedClient, LogClient, Timeouts, Wait, WitnessClient};
use note::{Origin, Policy, SignedCheckpoint, SigningKey, TlogProof, verified_cosignatures};
use receipt::{Chain, IssuerName, Receipt, UnixMillis};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use testkit::stage::{ORIGIN, Setup, Stage, wait_for, witness_name};
use tokio::runtime::Runtime;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_counterfoil-under-test");

struct Play {
    stage: Stage,
    runtime: Runtime,
    key: SigningKey,
    chain: Chain,
    /// Ed25519, ML-DSA-44.
    vkeys: [String; 2],
}

impl Play {
    fn begin(dir: &Path) -> Play {
        let setup = Setup { dir, executable: EXECUTABLE.as_ref(), port: None, witnesses: 1, more_issuers: &[] };
        let mut stage = Stage::build(&setup).unwrap();
        let file = stage.witness_dir(0).join("witness-mldsa.key");
        let name = witness_name(0);
        let keygen = ["keygen", "--kind", "witness-mldsa", "--name", &name, "--out"].map(OsStr::new);
        let (code, said) = stage.call(&[&keygen[..], &[file.as_os_str()]].concat()).unwrap();
        assert_eq!(code, 0);
        let mldsa = said.lines().next().unwrap().to_owned();
        let policy = fs::read_to_string(stage.policy_file()).unwrap();
        let ed25519 = policy.lines().find_map(|line| line.strip_prefix("witness w0 ")).unwrap();
        let ed25519 = ed25519.split(' ').next().unwrap().to_owned();
        edit(&stage.witness_dir(0).join("config.toml"), |text| format!("mldsa_key = \"witness-mldsa.key\"\n{text}"));
        // The section of the witness is the last one.
        let log = stage.log_dir().join("config.toml");
        edit(&log, |text| format!("cosigned_wait_ms = 3000\n{text}mldsa_vkey = \"{mldsa}\"\n"));
        stage.start_log().unwrap();
        stage.start_witnesses().unwrap();
        stage.wait_until_ready().unwrap();
        let text = fs::read_to_string(stage.issuer_key_file()).unwrap();
        let key = SigningKey::from_private_text(text.trim_end()).unwrap();
        let chain = Chain::new(IssuerName(key.name().clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Play { stage, runtime, key, chain, vkeys: [ed25519, mldsa] }
    }

    /// The policy that asks for `threshold` of the witness's two keys, in a file.
    fn policy(&self, threshold: &str) -> PathBuf {
        let ([old, new], url) = (&self.vkeys, self.stage.witness_url(0));
        let text = format!(
            "log {} {}\nwitness old {old} {url}\nwitness new {new} {url}\ngroup w {threshold} old new\nquorum w\n",
            self.stage.log_vkey(),
            self.stage.log_url()
        );
        let file = self.stage.dir().join(format!("policy-{threshold}"));
        fs::write(&file, text).unwrap();
        file
    }

    /// The gate's next receipt, until both keys cosigned a head over it or the log gave up, and the proof of it.
    fn submit(&mut self) -> (Receipt, TlogProof, bool) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
        let receipt = match self.chain.next_seq().0 {
            0 => self.chain.open(UnixMillis(now), &self.key).unwrap(),
            _ => self.chain.append(r#"{"type":"heartbeat"}"#, UnixMillis(now), &self.key).unwrap(),
        };
        match self.runtime.block_on(self.log().submit(receipt.bytes(), Wait::Cosigned)) {
            Ok(inclusion) => (receipt, inclusion.proof.proof().clone(), true),
            Err(error) => {
                let refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
                assert_eq!(refusal.status, 504, "{error}");
                let proof = refusal.inclusion().unwrap().proof.proof().clone();
                (receipt, proof, false)
            }
        }
    }

    fn log(&self) -> LogClient {
        let http = BoundedClient::new(Timeouts::default()).unwrap();
        LogClient::new(self.stage.log_url().parse().unwrap(), http)
    }

    /// The head on offer, once it has this size and a cosignature.
    fn offered(&self, size: u64) -> SignedCheckpoint {
        let mut offered = None;
        wait_for("a cosignature", || {
            let head = self.runtime.block_on(self.log().checkpoint()).unwrap();
            let head = SignedCheckpoint::parse(&head).unwrap();
            let arrived = head.claimed().size.0 == size && head.note().signatures().len() > 1;
            offered = Some(head).filter(|_| arrived);
            Ok(arrived)
        })
        .unwrap();
        offered.unwrap()
    }

    /// The exit code of `counterfoil-verify proof` under each policy: all, any.
    fn verify_proof(&self, receipt: &Receipt, proof: &TlogProof) -> [i32; 2] {
        let [proof_file, entry_file] = ["r.tlog-proof", "r.entry"].map(|name| self.stage.dir().join(name));
        fs::write(&proof_file, proof.to_string()).unwrap();
        fs::write(&entry_file, receipt.bytes()).unwrap();
        ["all", "any"].map(|threshold| {
            let policy = self.policy(threshold);
            let call = [OsStr::new("verify"), "proof".as_ref(), "--policy".as_ref(), policy.as_os_str()];
            self.stage.call(&[&call[..], &[proof_file.as_os_str(), entry_file.as_os_str()]].concat()).unwrap().0
        })
    }

    /// The exit code and words of `fetch` and `audit` under a policy.
    fn audit(&self, threshold: &str) -> (i32, String) {
        let (policy, bundle) = (self.policy(threshold), self.stage.dir().join(format!("bundle-{threshold}")));
        let fetch = [OsStr::new("verify"), "fetch".as_ref(), "--policy".as_ref(), policy.as_os_str()];
        let (code, said) = self.stage.call(&[&fetch[..], &["--out".as_ref(), bundle.as_os_str()]].concat()).unwrap();
        assert_eq!(code, 0, "{said}");
        let issuers = self.stage.issuers_file();
        let audit = [OsStr::new("verify"), "audit".as_ref(), "--policy".as_ref(), policy.as_os_str()];
        let more = ["--issuers".as_ref(), issuers.as_os_str(), bundle.as_os_str()];
        self.stage.call(&[&audit[..], &more[..]].concat()).unwrap()
    }

    /// The times of the good lines on what the witness shows: Ed25519, ML-DSA-44.
    fn shown(&self) -> [Option<u64>; 2] {
        let http = BoundedClient::new(Timeouts::default()).unwrap();
        let witness = WitnessClient::new(self.stage.witness_url(0).parse().unwrap(), http);
        let Ok(Some(head)) = self.runtime.block_on(witness.checkpoint(&Origin::new(ORIGIN).unwrap())) else {
            return [None, None];
        };
        let keys = self.vkeys.clone().map(|vkey| vkey.parse().unwrap());
        let head = SignedCheckpoint::parse(&head).unwrap();
        let lines = verified_cosignatures(head.note(), &keys);
        let good: Vec<_> = lines.into_iter().map(Result::unwrap).collect();
        [0, 1].map(|place| good.iter().find(|(by, _)| *by == place).map(|(_, line)| line.timestamp_s))
    }

    fn restart_witness(&mut self) {
        self.stage.stop_witness(0);
        self.stage.start_witnesses().unwrap();
        wait_for("the witness", || Ok(self.shown()[0].is_some())).unwrap();
    }
}

fn edit(file: &Path, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, change(text)).unwrap();
}

#[test]
fn log_witness_and_verifier_agree_on_both_kinds_of_key_and_miss_one_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut play = Play::begin(dir.path());
    let leaf = |receipt: &Receipt| merkle::leaf_hash(receipt.bytes());
    let [all, any] = ["all", "any"].map(|threshold| Policy::parse(&fs::read(play.policy(threshold)).unwrap()).unwrap());

    let (receipt, proof, cosigned) = play.submit();
    assert!(cosigned, "the log waited for both of its witness's keys");
    assert_eq!(proof.checkpoint.note().signatures().len(), 3, "the log's line and both of the witness's");
    assert_eq!(proof.verify(&leaf(&receipt), &all).unwrap().cosigned_by, [0, 1]);
    assert_eq!(play.verify_proof(&receipt, &proof), [0, 0]);
    for threshold in ["all", "any"] {
        let (code, said) = play.audit(threshold);
        assert_eq!(code, 0, "{threshold}: {said}");
    }

    let before = play.shown();
    play.restart_witness();
    let after = play.shown();
    assert!(before[0].is_some() && before[1] == before[0] && after[1] == after[0] && after[0] >= before[0]);
    let (receipt, proof, cosigned) = play.submit();
    assert!(cosigned);
    assert_eq!(play.verify_proof(&receipt, &proof), [0, 0]);

    // Without the second key the log waits for it in vain, and only the policy of either is satisfied.
    let config = play.stage.witness_dir(0).join("config.toml");
    edit(&config, |text| text.replacen("mldsa_key", "# mldsa_key", 1));
    play.restart_witness();
    let (receipt, proof, cosigned) = play.submit();
    assert!(!cosigned);
    let proof = TlogProof { checkpoint: play.offered(3), ..proof };
    assert!(proof.verify(&leaf(&receipt), &all).is_err());
    assert_eq!(proof.verify(&leaf(&receipt), &any).unwrap().cosigned_by, [0]);
    assert_eq!(play.verify_proof(&receipt, &proof), [1, 0]);
}
