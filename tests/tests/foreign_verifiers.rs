//! What `counterfoil-verify export` writes is read by libraries that share no line with this repository (`tests/go-exports`):
//! COSE, DSSE and in-toto of others' making, and others' trees. They recompute the root and check the signature, and refuse
//! a file or an entry with a bit turned over.
//!
//! Runs where Go is installed and can fetch its modules (once). Elsewhere it says SKIPPED on standard error.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../crates/audit/tests/world/mod.rs"]
mod world;

use counterfoil_tests::go;
use note::{KeyKind, SigningKey};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use world::{World, decision, key};

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_counterfoil-under-test");

/// The Go program. Go itself knows whether it has to be built again.
fn reader() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("go-exports");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-exports").join("exports");
    go::built(&program, &[], &["build", "-mod=readonly", "-o", program.to_str().unwrap(), "."], &folder)
}

/// A log of `size` entries with a proof of the one at `index`, and the keys that sign what is exported.
struct Desk {
    dir: TempDir,
    keys: [SigningKey; 2],
}

impl Desk {
    fn new(size: usize, index: u64) -> Desk {
        let mut world = World::new();
        world.log_heartbeats(size - 2);
        world.log_body(0, &decision("r", false, "READ", "s", "café \u{202e}", "customer:7").to_string());
        world.seal();
        let keys = [world.log.key.log_key(), key("notary.example/1", KeyKind::Ed25519, 99)];
        let desk = Desk { dir: tempfile::tempdir().unwrap(), keys };
        let (proof, entry) = world.proof(index);
        fs::write(desk.path("policy"), world.policy_text()).unwrap();
        fs::write(desk.path("issuers"), world.issuers_text()).unwrap();
        fs::write(desk.path("r.tlog-proof"), proof).unwrap();
        fs::write(desk.path("r.entry"), entry).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Exports the receipt into the file `out`; what the program printed.
    fn export(&self, format: &str, key: Option<&SigningKey>) -> Value {
        let mut command = Command::new(EXECUTABLE);
        command.current_dir(self.dir.path()).args(["verify", "export", "--json", "--format", format]);
        command.args(["--policy", "policy", "--issuers", "issuers", "--out", "out"]);
        if let Some(key) = key {
            fs::write(self.path("key"), key.to_private_text().as_str()).unwrap();
            fs::set_permissions(self.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
            command.args(["--key", "key"]);
        }
        let output = command.args(["r.tlog-proof", "r.entry"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What the Go program makes of the file `out`.
    fn read(&self, reader: &Path, kind: &str, more: &[&str]) -> Result<Value, String> {
        let output = Command::new(reader)
            .current_dir(self.dir.path())
            .args([kind, "out", "r.entry"])
            .args(more)
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }
}

#[test]
fn readers_of_other_makes_believe_an_export_and_none_with_a_bit_turned_over() {
    let reader = match reader() {
        Ok(reader) => reader,
        Err(reason) => return go::skipped("exports were not read by libraries of other makes", &reason),
    };
    // At both edges of a tree that is no power of two, in the middle of one that is, and over more than a tile.
    for (size, index) in [(7, 0), (7, 6), (8, 5), (2, 1), (300, 257)] {
        let desk = Desk::new(size, index);
        for (key, tries_envelope) in desk.keys.iter().zip([false, true]) {
            let said = desk.export("cose", Some(key));
            let (public, name) = (said["jwk"]["x"].as_str().unwrap(), key.name().as_str());
            let more = [public, name, "log.example/test"];
            let found = desk.read(&reader, "cose", &more).unwrap_or_else(|error| panic!("{size}, {index}: {error}"));
            assert_eq!((&found["id"], &found["index"], &found["size"]), (&said["id"], &said["index"], &said["size"]));
            assert_eq!((found["index"].as_u64(), found["size"].as_u64()), (Some(index), Some(size as u64)));
            let bits = [desk.path("out"), desk.path("r.entry")].map(|file| fs::read(file).unwrap().len() as u64 * 8);
            assert_eq!(found["refused"].as_u64(), Some(bits[0] + bits[1] - found["same"].as_u64().unwrap()));
            assert!(found["same"].as_u64() <= Some(1), "only the encoding of an absent payload has two forms: {found}");
            assert!(desk.read(&reader, "cose", &[public, name, "log.example/other"]).is_err());

            if !tries_envelope {
                continue;
            }
            let said = desk.export("in-toto", Some(key));
            let found =
                desk.read(&reader, "dsse", &[public]).unwrap_or_else(|error| panic!("{size}, {index}: {error}"));
            assert_eq!((&found["id"], &found["index"], &found["size"]), (&said["id"], &said["index"], &said["size"]));
            assert!(found["refused"].as_u64() > found["same"].as_u64().map(|same| same * 100), "{found}");
        }
        let said = desk.export("in-toto", None);
        let found = desk.read(&reader, "statement", &[]).unwrap();
        assert_eq!((&found["id"], &found["index"], &found["size"]), (&said["id"], &said["index"], &said["size"]));
    }
}

#[test]
fn readers_of_other_makes_refuse_another_key() {
    let reader = match reader() {
        Ok(reader) => reader,
        Err(reason) => return go::skipped("exports were not read by libraries of other makes", &reason),
    };
    let desk = Desk::new(7, 3);
    let [log, notary] = &desk.keys;
    let public = |said: &Value| said["jwk"]["x"].as_str().unwrap().to_owned();
    let of_notary = public(&desk.export("cose", Some(notary)));
    let of_log = public(&desk.export("cose", Some(log)));
    let more = [of_notary.as_str(), "log.example/test", "log.example/test"];
    assert!(desk.read(&reader, "cose", &more).unwrap_err().contains("verification"));
    desk.export("in-toto", Some(notary));
    assert!(desk.read(&reader, "dsse", &[&of_log]).is_err());
    assert!(desk.read(&reader, "dsse", &[&of_notary]).is_ok());
}
