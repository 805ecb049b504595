//! Writes `seeds/<target>/`: valid samples of every format, all from fixed keys. Run it when a format has changed.

use cosign::subtree::SubtreeRequest;
use cosign::{LogFork, OmittedHead, WitnessFork, implied_root};
use counterfoil_fuzz::pushes::{HELD, history, signed};
use counterfoil_fuzz::subtrees::witness as subtree_witness;
use counterfoil_fuzz::world::{START_MS, START_S, World, decision};
use merkle::{
    HashSource, LeafIndex, MemoryTree, Subtree, TreeSize, encode_entry, leaf_hash, prove_consistency, prove_inclusion,
    prove_subtree,
};
use note::{
    Checkpoint, Origin, SignedCheckpoint, SigningKey, TlogProof, Verified, cosign as cosigned, sign_checkpoint,
};
use receipt::breach::Exhibit;
use receipt::{IssuerForkEvidence, LogAdmitted, OmittedReceipt, RefusalCode};
use serde_json::{Value, json};
use std::path::Path;
use testkit::signed_records::{chain, pin};

fn main() -> std::io::Result<()> {
    let world = small_world();
    for (target, seeds) in trees()
        .into_iter()
        .chain(notes(&world))
        .chain(receipts(&world))
        .chain(forks(&world))
        .chain(subtrees(&world))
        .chain(audits())
    {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        std::fs::create_dir_all(&folder)?;
        for (place, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("{place:02}")), seed)?;
        }
    }
    Ok(())
}

type Seeds = (&'static str, Vec<Vec<u8>>);

fn texts<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

fn small_world() -> World {
    let mut world = World::new();
    for (number, class) in ["READ", "IDENTITY_MUTATION", "CREDENTIAL_RECOVERY"].into_iter().enumerate() {
        let body = decision(&format!("r-{number}"), true, class, "session-1", "contact_77", "customer:77");
        world.log_body(0, &body.to_string());
    }
    world.seal();
    world.log_heartbeats(2);
    world.seal_for(&[0, 1]);
    world
}

fn trees() -> Vec<Seeds> {
    let mut tree = MemoryTree::new();
    (0..300u64).for_each(|place| tree.push(leaf_hash(&place.to_be_bytes())));
    let mut bundle = Vec::new();
    for entry in [&b"one"[..], b"", b"three"] {
        encode_entry(&mut bundle, entry).unwrap();
    }
    let numbers = |first: u64, second: u64| [first.to_be_bytes(), second.to_be_bytes()].concat();
    let included = prove_inclusion(&tree, LeafIndex(7), TreeSize(11)).unwrap();
    let consistent = prove_consistency(&tree, TreeSize(6), TreeSize(300)).unwrap();
    let with =
        |numbers: Vec<u8>, hashes: &[merkle::Hash]| [numbers, hashes.iter().flat_map(|hash| hash.0).collect()].concat();
    vec![
        (
            "merkle_path",
            texts([
                "checkpoint",
                "tile/0/000",
                "tile/0/x001/067.p/3",
                "tile/63/x018/x446/x744/x073/x709/x551/615",
                "tile/entries/x123/x456/789",
                "heads/000.p/1",
            ]),
        ),
        ("merkle_entries", vec![bundle, Vec::new()]),
        (
            "merkle_proof",
            vec![
                with(numbers(7, 11), included.hashes()),
                with(numbers(6, 300), consistent.hashes()),
                numbers(u64::MAX - 1, u64::MAX),
                numbers(1 << 63, u64::MAX),
            ],
        ),
        ("merkle_tiles", vec![numbers(7, 300), numbers(65_535, 70_000), numbers(u64::MAX - 1, u64::MAX)]),
    ]
}

fn notes(world: &World) -> Vec<Seeds> {
    let head = world.with_cosignatures(&world.log.heads[1]);
    let line = cosigned(head.note().text(), &world.witnesses[2].key(), START_S).unwrap().line;
    let new = subtree_witness();
    let new_line = cosigned(head.note().text(), &new, START_S).unwrap();
    let both = head.with_cosignatures(&[new_line.to_line().unwrap()]);
    let grouped = "group inner 1 w1 w2\ngroup outer all inner w3\nquorum outer\n";
    let (keys, _) =
        world.policy_text().split_once("group").map(|(keys, rest)| (keys.to_owned(), rest.to_owned())).unwrap();
    vec![
        ("note_signed", vec![head.bytes().to_vec(), world.log.entries[0].clone()]),
        ("note_checkpoint", vec![head.bytes().to_vec(), world.log.heads[0].bytes().to_vec(), both.bytes().to_vec()]),
        (
            "note_vkey",
            vec![
                world.log.key.log_key().verifier().to_string().into_bytes(),
                world.witnesses[0].key().verifier().to_string().into_bytes(),
                new.verifier().to_string().into_bytes(),
            ],
        ),
        (
            "note_private_key",
            vec![
                world.log.key.log_key().to_private_text().as_bytes().to_vec(),
                world.witnesses[0].key().to_private_text().as_bytes().to_vec(),
                new.to_private_text().as_bytes().to_vec(),
            ],
        ),
        ("note_cosignature", vec![line.clone().into_bytes(), (line + "\n").into_bytes(), new_line.line.into_bytes()]),
        ("note_proof", vec![world.proof(0).0, world.proof(3).0]),
        (
            "note_policy",
            vec![
                world.policy_text().into_bytes(),
                format!("# nested\n{keys}{grouped}").into_bytes(),
                format!("{keys}quorum none\n").into_bytes(),
                format!("{keys}witness pq {}\ngroup both all w1 pq\nquorum both\n", new.verifier()).into_bytes(),
            ],
        ),
    ]
}

fn receipts(world: &World) -> Vec<Seeds> {
    let body = decision("r-1", false, "READ", "s", "contact_77", "customer:77");
    let disclosure = receipt::commit("args", &json!({"id": 77}), [7; 16]).1.to_string();
    vec![
        ("receipt_entry", world.log.entries[..3].to_vec()),
        (
            "receipt_json",
            vec![
                body.to_string().into_bytes(),
                br#"[1,-0,1.5e-7,9007199254740991,"\u00e9\ud83d\ude00\n",null,true,{}]"#.to_vec(),
            ],
        ),
        (
            "receipt_credential",
            texts([
                r#"{"type":"decision","args":{"password":"correct horse battery"}}"#,
                r#"{"headers":[{"name":"Authorization","value":"Bearer abcdefghijklmnopqrstuvwxyz"}]}"#,
                r#"{"arguments":"{\"api_key\":\"0123456789abcdef0123\"}","receipt_b64":"e30="}"#,
                r#"{"jwk":{"kty":"OKP","d":"AAECAwQFBgcICQoLDA0ODw"}}"#,
            ]),
        ),
        ("receipt_disclosure", vec![disclosure.into_bytes()]),
        ("receipt_log_admitted", log_admitted(world)),
        ("receipt_omitted_receipt", omitted_receipt(world)),
        ("receipt_breach", texts(["\0\0\x01", "\x04\x01\x01\x03", "\x05\x01\0\x01\x02\x03", "\x02\0\x02\x04"])),
    ]
}

fn forks(world: &World) -> Vec<Seeds> {
    let key = world.log.key.log_key();
    let mut other = MemoryTree::new();
    (0..9u64).for_each(|place| other.push(leaf_hash(&place.to_be_bytes())));
    let sign = |tree: &MemoryTree| {
        let head = Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root());
        let head = sign_checkpoint(&head, &key).unwrap();
        let line = cosigned(head.note().text(), &world.witnesses[0].key(), START_S).unwrap();
        head.with_cosignatures(&[line.to_line().unwrap()])
    };
    let witness = world.witnesses[0].key().verifier();
    let (held, larger) = (sign(&world.log.tree), sign(&other));
    let mut same_size = MemoryTree::new();
    (0..world.log.tree.size().0).for_each(|_| same_size.push(leaf_hash(b"another history")));
    let same_size = sign(&same_size);
    let implied = || Some(implied_root(&other, held.checkpoint().size, &larger).unwrap());
    let log_forks = [LogFork::make(&held, &larger, implied()), LogFork::make(&held, &same_size, None)];
    let witness_forks =
        [WitnessFork::make(&witness, &held, &larger, implied()), WitnessFork::make(&witness, &held, &same_size, None)];
    let log_forks = log_forks.map(|fork| serde_json::to_vec(&fork.unwrap()).unwrap()).to_vec();
    let witness_forks = witness_forks.map(|fork| serde_json::to_vec(&fork.unwrap()).unwrap()).to_vec();
    let admitted = log_admitted(world);
    let all = [log_forks.clone(), witness_forks.clone(), vec![issuer_fork()], admitted].concat();
    let all = [all, omitted_receipt(world), omitted_head(world)].concat();
    vec![
        ("cosign_log_fork", log_forks),
        ("cosign_witness_fork", witness_forks),
        ("cosign_omitted_head", omitted_head(world)),
        ("audit_evidence", all),
        ("cosign_decide", decisions(&held)),
        ("cosign_push", calls(&key)),
    ]
}

/// Requests that are answered, and one without the signatures.
fn subtrees(world: &World) -> Vec<Seeds> {
    let (tree, head) = (&world.log.tree, world.log.heads.last().unwrap());
    let line = cosigned(head.note().text(), &subtree_witness(), START_S).unwrap().to_line().unwrap();
    let request = |start, end, signed: bool| {
        let subtree = Subtree::new(start, end).unwrap();
        let request = SubtreeRequest {
            subtree,
            hash: subtree.root(tree).unwrap(),
            cosignatures: vec![line.signature().clone(); usize::from(!signed)],
            proof: prove_subtree(tree, subtree, tree.size()).unwrap(),
            checkpoint: head.checkpoint().clone(),
            signatures: head.with_cosignatures(&[line.clone()]).note().signatures().to_vec(),
        };
        let signatures = if signed { request.signatures.clone() } else { vec![] };
        SubtreeRequest { signatures, ..request }.to_string().into_bytes()
    };
    vec![("cosign_subtree", vec![request(0, 3, true), request(2, 3, true), request(4, 5, true), request(0, 1, false)])]
}

/// From nothing, the same head again, growth with its proof, and a second history with the proof that shows it.
fn calls(log: &SigningKey) -> Vec<Vec<u8>> {
    let call = |old: u64, size: u64, variant: u8| {
        let proof = match old {
            0 => Default::default(),
            _ => prove_consistency(&history(size, variant), TreeSize(old), TreeSize(size)).unwrap(),
        };
        let hashes: String = proof.hashes().iter().map(|hash| format!("{}\n", hash.to_base64())).collect();
        [format!("old {old}\n{hashes}\n").as_bytes(), signed(log, size, variant).bytes()].concat()
    };
    vec![call(0, HELD, 0), call(HELD, HELD, 0), call(HELD, 9, 0), call(HELD, 9, 1), call(0, 0, 0)]
}

/// A log that admitted nonsense, and a receipt of the world twice.
fn log_admitted(world: &World) -> Vec<Vec<u8>> {
    let key = world.log.key.log_key();
    let entry = &world.log.entries[1];
    let mut tree = MemoryTree::new();
    [&b"no receipt"[..], entry, entry].into_iter().for_each(|entry| tree.push(leaf_hash(entry)));
    let head = sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root()), &key).unwrap();
    let at = |index: u64, entry| Exhibit { index: LeafIndex(index), entry };
    let made = [
        LogAdmitted::make(&head, RefusalCode::Malformed, &[at(0, b"no receipt")], None, &tree),
        LogAdmitted::make(&head, RefusalCode::Duplicate, &[at(1, entry), at(2, entry)], None, &tree),
    ];
    made.map(|document| serde_json::to_vec(&document.unwrap()).unwrap()).to_vec()
}

/// A proof that the log gave, and another entry where it says that this one is; and the proof alone.
fn omitted_receipt(world: &World) -> Vec<Vec<u8>> {
    let key = world.log.key.log_key();
    let (proof, entry) = world.proof(2);
    let proof = TlogProof::parse(&proof).unwrap();
    let mut other = MemoryTree::new();
    (0..5u64).for_each(|place| other.push(leaf_hash(&place.to_be_bytes())));
    let head = sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), other.size(), other.root()), &key).unwrap();
    [Some((&head, &other as &dyn HashSource)), None]
        .map(|presented| OmittedReceipt::make(&key.verifier(), &proof, &entry, presented).unwrap())
        .map(|document| serde_json::to_vec(&document).unwrap())
        .to_vec()
}

/// A head in a journal that its witness cosigned, and in one that its own key vouches for.
fn omitted_head(world: &World) -> Vec<Vec<u8>> {
    let witness = &world.witnesses[0];
    let journal = witness.journal.clone().seal();
    let line = cosigned(journal.note().text(), &witness.key(), START_S).unwrap().to_line().unwrap();
    let head = journal.with_cosignatures(&[line]).into_unverified();
    let entry = String::from_utf8(witness.journal.entries[0].clone()).unwrap();
    [witness.key().verifier(), witness.journal.key.log_key().verifier()]
        .map(|by| {
            let log = world.log.key.log_key().verifier();
            OmittedHead::make(&log, &by, &head, LeafIndex(0), &entry, &witness.journal.tree).unwrap()
        })
        .map(|document| serde_json::to_vec(&document).unwrap())
        .to_vec()
}

fn issuer_fork() -> Vec<u8> {
    let [one, other] = ["r-1", "r-2"].map(|request| {
        let mut gate = World::new().gates.remove(0);
        gate.issue(&decision(request, true, "READ", "", "", "").to_string(), START_MS)
    });
    let key = World::new().gates[0].key().verifier();
    serde_json::to_vec(&IssuerForkEvidence::make(&key, one.bytes(), other.bytes()).unwrap()).unwrap()
}

/// As `forks::decide` reads them: honest or not, two heads, then the tiles.
fn decisions(head: &SignedCheckpoint<Verified>) -> Vec<Vec<u8>> {
    let root = head.checkpoint().root.0.0;
    let hostile = |first: u64, second: u64| {
        [&[1], &first.to_be_bytes()[..], &root, &second.to_be_bytes(), &root, &[3; 40]].concat()
    };
    let honest = |first: u16, second: u16| [&[0], &first.to_be_bytes()[..], &second.to_be_bytes(), &[3; 40]].concat();
    let mut tree = MemoryTree::new();
    (0..9u64).for_each(|place| tree.push(leaf_hash(&place.to_be_bytes())));
    let nine = [&[1], &4u64.to_be_bytes()[..], &root, &9u64.to_be_bytes(), &tree.root().0.0, &[3; 40]].concat();
    assert!(tree.subtree(3, 0).is_some());
    vec![honest(3, 600), honest(512, 511), honest(7, 7), hostile(4, 9), hostile(6, 6), hostile(0, u64::MAX), nine]
}

fn audits() -> Vec<Seeds> {
    let world = World::new();
    let issuers = world.issuers_text();
    let rules = "[[sequence]]\ncode = \"R4_SEQUENCE\"\nfirst = [\"A\"]\nthen = [\"B\"]\nscope = \"subject\"\n\n\
                 [[relation]]\nsubject = \"customer:77\"\nresources = [\"contact_77\", \"auth_77\"]\n";
    let keys = format!("{rules}\n{}", ["acta", "obsigna", "pipelock"].map(|format| pin(format, 41)).concat());
    let foreign = foreign_lines();
    for (format, line) in audit::FORMATS.iter().zip(&foreign) {
        audit::import_lines(format, &line.to_string()).unwrap();
    }
    assert!(audit::Rules::parse(&keys).is_ok());
    let signed = |format| -> Vec<Vec<u8>> {
        let receipts = chain(format, 41, 3);
        let pretty = format!("{:#}", receipts[0]).into_bytes();
        receipts.iter().map(|receipt| receipt.to_string().into_bytes()).chain([pretty]).collect()
    };
    let wrapped = json!({"v": 1, "seq": 0, "type": "action_receipt", "detail": chain("pipelock", 41, 1)[0]});
    let state = json!({"delegation_id": "dlg-1", "status": "active"});
    let import = |format: u8, line: &Value| [&[format], line.to_string().as_bytes()].concat();
    vec![
        ("audit_rules", texts([rules, &keys])),
        (
            "audit_issuers",
            vec![
                issuers.clone().into_bytes(),
                format!(
                    "# ours\n{} heartbeat=60s from=2026-01-01T00:00:00Z until=2027-01-01T00:00:00Z\n",
                    issuers.trim_end()
                )
                .into_bytes(),
            ],
        ),
        (
            "audit_foreign",
            [import(0, &foreign[0]), import(1, &foreign[1])]
                .into_iter()
                .chain(
                    (2..)
                        .zip(["acta", "obsigna", "pipelock"])
                        .map(|(number, format)| [vec![number], signed(format).concat()].concat()),
                )
                .collect(),
        ),
        ("audit_acta", [signed("acta"), vec![state.to_string().into_bytes()]].concat()),
        ("audit_obsigna", signed("obsigna")),
        ("audit_pipelock", [signed("pipelock"), vec![wrapped.to_string().into_bytes()]].concat()),
        ("audit_judge", bundles(&foreign)),
        ("audit_bundle", damages()),
    ]
}

/// As `bundles::damaged` reads them: a step, a file by its number, a place, and what the step asks for.
fn damages() -> Vec<Vec<u8>> {
    let files = counterfoil_fuzz::bundles::paths().len() as u8;
    let script = |step: u8, rest: &[u8]| {
        (0..files).step_by(3).map(|file| [&[step, file, 0, 40], rest, &[0]].concat()).collect::<Vec<_>>()
    };
    let named = [&[15][..], b"log/tile/README"].concat();
    let scripts = [
        script(1, &[]),
        script(2, &[]),
        script(3, &[]),
        script(4, &[0, 2, b'x', b'\n']),
        script(6, &[4]),
        script(7, &named),
    ];
    scripts.into_iter().flatten().chain([Vec::new()]).collect()
}

/// One record of each importable format.
fn foreign_lines() -> [Value; 2] {
    [
        json!({"run": "D", "gate": "PurposeGate", "session": "D-1", "receipt": {
            "action_class": "READ", "customer": "77", "decision": {"allow": true}, "prior_action_classes": ["READ"],
            "previous_head": null, "sequence_number": 0, "chain_sha256": "00",
        }}),
        json!({"event": "execution_result", "operation": "a", "resource": "b", "capability_id": "c", "executed": true}),
    ]
}

/// As `audits::judge` reads them: what is logged, then what is done to the bundle.
fn bundles(foreign: &[Value; 2]) -> Vec<Vec<u8>> {
    let counted = |text: &[u8]| [&(text.len() as u16).to_be_bytes()[..], text].concat();
    let body = decision("r-1", true, "IDENTITY_MUTATION", "s", "contact_77", "customer:77").to_string();
    let logged: Vec<u8> = [
        [&[1], &counted(body.as_bytes())[..]].concat(),
        [&[1], &counted(body.replace("IDENTITY_MUTATION", "CREDENTIAL_RECOVERY").as_bytes())[..]].concat(),
        [&[3], &counted(b"no receipt")[..]].concat(),
        vec![6, 2],
        [&[4, 1], &counted(foreign[1].to_string().as_bytes())[..]].concat(),
        vec![5, 3, 7, 0, 0, 0, 0, 0, 1, 0, 0, 6, 3, 0],
    ]
    .concat();
    let edits: [&[u8]; 6] = [
        &[0, 0],
        &[0, 1, 2, 0, 0, 0],
        &[0, 3, 0, 0, 40, 0],
        &[0, 2, 3, 0, 9, 0],
        &[0, 4, 5, 0, 8, 0, 3, b'a', b'b', b'c', 0],
        &[
            1, 6, 0, 0, 0, 4, 7, 1, 0, 0, 14, b'e', b'v', b'i', b'd', b'e', b'n', b'c', b'e', b'/', b'a', b'.', b'j',
            b's',
        ],
    ];
    edits.map(|edit| [&logged[..], edit].concat()).to_vec()
}
