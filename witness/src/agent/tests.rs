//! Against OpenSSH's own agent, where there is one, and against agents that do everything wrong.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use note::{KeyKind, KeyName, SigningKey};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const TEXT: &str = "log.example\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::CosignatureV1, [seed; 32])
}

/// An agent that answers each request, one after the other and on whatever connection, by `answer`.
fn fake(answer: impl Fn(usize, &[u8], &mut UnixStream) + Send + 'static) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let mut asked = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut length = [0; 4];
            while stream.read_exact(&mut length).is_ok() {
                let mut request = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut request).unwrap();
                answer(asked, &request, &mut stream);
                asked += 1;
            }
        }
    });
    (dir, socket)
}

fn say(stream: &mut UnixStream, content: &[u8]) {
    let mut framed = Vec::new();
    push_string(&mut framed, content);
    // The other side may have hung up on what came before.
    let _ = stream.write_all(&framed);
}

fn list_of(keys: &[&SigningKey]) -> Vec<u8> {
    let mut list = vec![IDENTITIES];
    list.extend_from_slice(&(keys.len() as u32).to_be_bytes());
    for key in keys {
        push_string(&mut list, &key_blob(&key.verifier()));
        push_string(&mut list, b"a comment");
    }
    list
}

fn signature_by(key: &SigningKey, request: &[u8]) -> Vec<u8> {
    let mut rest = &request[1..];
    let (_key, message) = (take_string(&mut rest).unwrap(), take_string(&mut rest).unwrap());
    let mut inner = Vec::new();
    push_string(&mut inner, ALGORITHM);
    push_string(&mut inner, &key.sign(message));
    let mut answer = vec![SIGN_RESPONSE];
    push_string(&mut answer, &inner);
    answer
}

/// Answers as an agent with `key` does.
fn honest(key: &SigningKey, request: &[u8], stream: &mut UnixStream) {
    match request[0] {
        REQUEST_IDENTITIES => say(stream, &list_of(&[&self::key(77), key])),
        _ => say(stream, &signature_by(key, request)),
    }
}

#[test]
fn an_agents_cosignature_is_the_keys_own() {
    let (_dir, socket) = fake(|_, request, stream| honest(&key(1), request, stream));
    let agent = Agent::open(&socket, &key(1).verifier()).unwrap();
    for time in 1..5 {
        assert_eq!(agent.cosign(TEXT, time).unwrap(), note::cosign(TEXT, &key(1), time).unwrap());
    }
    assert!(matches!(agent.cosign(TEXT, 0), Err(AgentError::Cosignature(CosignatureError::ZeroTimestamp))));
}

#[test]
fn an_agent_that_was_started_anew_is_asked_again_on_a_new_connection() {
    let (_dir, socket) = fake(|_, request, stream| {
        honest(&key(1), request, stream);
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    let agent = Agent::open(&socket, &key(1).verifier()).unwrap();
    assert!(agent.cosign(TEXT, 5).is_ok() && agent.cosign(TEXT, 6).is_ok());
}

#[test]
fn a_key_that_the_agent_does_not_hold_is_named_as_ssh_add_lists_it() {
    let (_dir, socket) = fake(|_, request, stream| honest(&key(2), request, stream));
    let error = Agent::open(&socket, &key(1).verifier()).unwrap_err().to_string();
    let line = error.split('"').nth(1).unwrap();
    assert_eq!(parse_public_line(line).unwrap().as_slice(), key(1).verifier().public_key_bytes(), "{error}");
    assert_eq!(parse_public_line(&format!("{line} me@here\n")), parse_public_line(line));
    for bad in
        ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIA==", &line.replace("ed25519", "rsa")]
    {
        assert_eq!(parse_public_line(bad), None, "{bad}");
    }
    assert!(matches!(Agent::open(Path::new("/nowhere/agent"), &key(1).verifier()), Err(AgentError::Connect { .. })));
}

#[test]
fn a_signature_by_another_key_is_never_used() {
    let (_dir, socket) = fake(|asked, request, stream| match asked {
        0 | 1 => honest(&key(1), request, stream),
        _ => say(stream, &signature_by(&key(2), request)),
    });
    let agent = Agent::open(&socket, &key(1).verifier()).unwrap();
    let error = agent.cosign(TEXT, 5).unwrap_err();
    assert!(matches!(error, AgentError::Cosignature(CosignatureError::BadSignature)), "{error}");
    let (_dir, socket) = fake(|_, request, stream| match request[0] {
        REQUEST_IDENTITIES => say(stream, &list_of(&[&key(1)])),
        _ => say(stream, &signature_by(&key(2), request)),
    });
    assert!(matches!(Agent::open(&socket, &key(1).verifier()), Err(AgentError::Cosignature(_))), "the probe");
}

#[test]
fn whatever_a_hostile_agent_answers_ends_in_a_sentence_and_the_next_answer_is_taken() {
    let sound = signature_by(&key(1), &{
        let mut request = vec![SIGN_REQUEST];
        push_string(&mut request, &key_blob(&key(1).verifier()));
        push_string(&mut request, b"another message");
        request
    });
    let mut answers: Vec<Vec<u8>> = vec![vec![FAILURE], vec![], vec![SIGN_RESPONSE], vec![99; 50], list_of(&[&key(1)])];
    answers.extend((1..sound.len()).map(|end| sound[..end].to_vec()));
    answers.push([&sound[..], b"x"].concat());
    answers.push(sound);
    let count = answers.len();
    let (_dir, socket) =
        fake(move |asked, request, stream| match asked.checked_sub(2).and_then(|bad| answers.get(bad)) {
            Some(answer) => say(stream, answer),
            None => honest(&key(1), request, stream),
        });
    let agent = Agent::open(&socket, &key(1).verifier()).unwrap();
    let mut refused = 0;
    // An answer that breaks the connection's order takes a question more, on a new connection.
    while let Err(error) = agent.cosign(TEXT, 5) {
        agent.line.lock().unwrap().rests_until = None;
        assert!(!matches!(error, AgentError::Connect { .. }), "{error}");
        refused += 1;
        assert!(refused <= count);
    }
    assert!(refused > count / 2, "{refused} of {count}");
}

#[test]
fn an_answer_that_stalls_drips_or_claims_to_be_huge_is_left() {
    type Manner = fn(&mut UnixStream);
    let manners: [Manner; 4] = [
        |_| std::thread::sleep(Duration::from_secs(60)),
        |stream| {
            let _ = stream.write_all(&[0, 0, 0, 88, SIGN_RESPONSE]);
            while stream.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        },
        |stream| {
            let _ = stream.write_all(&u32::MAX.to_be_bytes());
        },
        |stream| {
            let _ = stream.write_all(&(MAX_SIGNATURE as u32 + 1).to_be_bytes());
        },
    ];
    for manner in manners {
        let (_dir, socket) = fake(move |asked, request, stream| match asked {
            0 | 1 => honest(&key(1), request, stream),
            _ => manner(stream),
        });
        let mut agent = Agent::open(&socket, &key(1).verifier()).unwrap();
        agent.deadline = Duration::from_millis(300);
        let error = agent.cosign(TEXT, 5).unwrap_err();
        assert!(matches!(error, AgentError::Silent(_) | AgentError::Garbage(_)), "{error}");
        let mut line = agent.line.lock().unwrap();
        assert!(line.connection.is_none(), "a broken connection is not used again");
        // Its rest may be over by the next line of a test that was not scheduled for a second.
        *line.rests_until.as_mut().unwrap() += Duration::from_secs(3600);
        drop(line);
        assert!(matches!(agent.cosign(TEXT, 5), Err(AgentError::Away)), "nobody else waits for it to fail");
    }
}

#[test]
fn an_agent_whose_queue_is_full_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut waiting = Vec::new();
    // Nobody accepts. The queue's length is the system's.
    while let Ok(stream) = connect(&socket) {
        waiting.push(stream);
        assert!(waiting.len() < 100_000);
    }
    assert!(matches!(Agent::open(&socket, &key(1).verifier()), Err(AgentError::Connect { .. })));
}

/// OpenSSH's agent in a process of its own.
struct OpenSsh {
    dir: TempDir,
    agent: Child,
}

impl OpenSsh {
    /// `None` where OpenSSH is not installed.
    fn start() -> Option<OpenSsh> {
        let dir = tempfile::tempdir().unwrap();
        let agent =
            Command::new("ssh-agent").args(["-D", "-a"]).arg(dir.path().join("agent")).stdout(Stdio::null()).spawn();
        let started = OpenSsh { dir, agent: agent.ok()? };
        while connect(&started.socket()).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(started)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("agent")
    }

    fn ssh_add(&self, arguments: &[&str]) {
        let done = Command::new("ssh-add").args(arguments).env("SSH_AUTH_SOCK", self.socket()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    /// A new key in a file, and its public half as a witness's.
    fn new_key(&self) -> (PathBuf, VerifierKey) {
        let file = self.dir.path().join("id");
        let words = ["-q", "-t", "ed25519", "-N", "", "-C", "a witness", "-f"];
        assert!(Command::new("ssh-keygen").args(words).arg(&file).status().unwrap().success());
        let public = parse_public_line(&std::fs::read_to_string(file.with_extension("pub")).unwrap()).unwrap();
        let vkey = VerifierKey::new(KeyName::new("w.example").unwrap(), KeyKind::CosignatureV1, &public).unwrap();
        (file, vkey)
    }
}

impl Drop for OpenSsh {
    fn drop(&mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
    }
}

#[test]
fn opensshs_agent_cosigns_until_the_key_is_taken_from_it() {
    let Some(openssh) = OpenSsh::start() else {
        eprintln!("SKIPPED: ssh-agent is not installed; nothing was tested against OpenSSH");
        return;
    };
    let (file, vkey) = openssh.new_key();
    assert!(matches!(Agent::open(&openssh.socket(), &vkey), Err(AgentError::NotHeld { .. })));
    openssh.ssh_add(&["-q", file.to_str().unwrap()]);
    let agent = Agent::open(&openssh.socket(), &vkey).unwrap();
    for time in 1..20 {
        let cosignature = agent.cosign(TEXT, time).unwrap();
        assert_eq!(cosignature.to_line().unwrap().verify(TEXT, &vkey), Ok(cosignature));
    }
    openssh.ssh_add(&["-q", "-D"]);
    assert!(matches!(agent.cosign(TEXT, 20), Err(AgentError::Refused)));
    openssh.ssh_add(&["-q", file.to_str().unwrap()]);
    assert!(agent.cosign(TEXT, 20).is_ok());
}
