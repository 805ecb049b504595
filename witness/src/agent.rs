//! The witness's Ed25519 key in an ssh-agent: the private half is never in this process, nor in a file of its.
//!
//! ```text
//! message     uint32 length || byte type || content          (draft-miller-ssh-agent)
//! ask         11                                              12: uint32 n, n × (string key, string comment)
//! ask to sign 13: string key, string data, uint32 flags = 0   14: string (string "ssh-ed25519", string signature)
//! refusal                                                     5
//! key         string "ssh-ed25519" || string 32 bytes         (RFC 8709)
//! ```
//!
//! Holds these two questions, with a bound on every answer and one deadline over each exchange, and the check of every
//! signature. The clients there are for this protocol take the agent's word for how much memory an answer needs, wait for
//! it without end, and bring parsers for every kind of key. Does not hold what is signed (`note::cosign_with`).

use note::{Cosignature, CosignatureError, VerifierKey};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One exchange takes no longer. An agent on the same machine answers in a millisecond; one that asks its owner each time is
/// not for a witness. (A test may run on a machine that is busy with something else for so long.)
const DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 5 });

/// Bytes of the longest list of keys; OpenSSH's agent sends none above 256 KiB.
const MAX_LIST: usize = 256 * 1024;

/// Bytes of an answer with a signature: 88 for Ed25519, and a refusal has one.
const MAX_SIGNATURE: usize = 1024;

/// After an exchange that failed the agent is left alone for so long: with a thousand logs, a thousand would each wait for it to
/// fail.
const REST: Duration = Duration::from_secs(1);

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

const ALGORITHM: &[u8] = b"ssh-ed25519";

/// Signed once at the start, to see that the key is there and may be used. No cosignature begins like this.
const PROBE: &[u8] = b"counterfoil-witness: may this key be used?\n";

/// An ssh-agent that holds a witness's key.
#[derive(Debug)]
pub struct Agent {
    socket: PathBuf,
    vkey: VerifierKey,
    deadline: Duration,
    line: Mutex<Line>,
}

/// The way to an agent.
#[derive(Debug, Default)]
struct Line {
    /// Kept between signatures, dropped after any error.
    connection: Option<UnixStream>,
    /// Until when nobody asks again.
    rests_until: Option<Instant>,
}

/// Why the agent gave no signature. The witness lives on, and asks again for the next head.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody listens there.
    #[error("no ssh-agent answers at {socket}: {source}; start it, and check ssh_agent in the configuration")]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It answers too slowly, or its connection broke.
    #[error("the ssh-agent gave no answer: {0}; check that it runs and asks nobody for confirmation")]
    Silent(io::Error),
    /// It gave none a moment ago.
    #[error("the ssh-agent gave no answer a moment ago, and is asked again in a second; check that it runs")]
    Away,
    /// It does not list the key.
    #[error(
        "the ssh-agent does not hold the key of {name}; add it with ssh-add, `ssh-add -L` must then list \"{line}\""
    )]
    NotHeld {
        /// The witness's name.
        name: String,
        /// The key as ssh-add lists it.
        line: String,
    },
    /// It says no.
    #[error("the ssh-agent refuses to sign; unlock it, or add the key again without constraints")]
    Refused,
    /// What it says is not the protocol.
    #[error("the ssh-agent's answer is none ({0}); check that ssh_agent is the socket of an ssh-agent")]
    Garbage(&'static str),
    /// Its signature is not the key's, or nothing can be signed.
    #[error("the ssh-agent's signature cannot be used: {0}")]
    Cosignature(#[from] CosignatureError),
}

impl Agent {
    /// The agent that listens on `socket`, once it has shown that it holds the private half of `vkey` and signs with it.
    /// Blocks, as does every call here.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn open(socket: &Path, vkey: &VerifierKey) -> Result<Agent, AgentError> {
        let agent = Agent { socket: socket.to_owned(), vkey: vkey.clone(), deadline: DEADLINE, line: Mutex::default() };
        let answer = agent.ask(&[REQUEST_IDENTITIES], MAX_LIST)?;
        if !identities(&answer)?.contains(&key_blob(vkey).as_slice()) {
            let line = format!("ssh-ed25519 {}", merkle::encode_base64(&key_blob(vkey)));
            return Err(AgentError::NotHeld { name: vkey.name().to_string(), line });
        }
        let signature = agent.sign(PROBE)?;
        if !vkey.verify(PROBE, &signature) {
            return Err(CosignatureError::BadSignature.into());
        }
        Ok(agent)
    }

    /// Cosigns as [`note::cosign`] does; the signature is checked under the witness's key before it is used.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn cosign(&self, text: &str, timestamp_s: u64) -> Result<Cosignature, AgentError> {
        note::cosign_with(text, &self.vkey, timestamp_s, |message| self.sign(message))
    }

    /// The witness's key.
    pub fn vkey(&self) -> &VerifierKey {
        &self.vkey
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, AgentError> {
        let mut request = vec![SIGN_REQUEST];
        push_string(&mut request, &key_blob(&self.vkey));
        push_string(&mut request, message);
        request.extend_from_slice(&0u32.to_be_bytes());
        signature(&self.ask(&request, MAX_SIGNATURE)?)
    }

    /// One question and its answer, on the connection there is, or on a new one: the agent may have been started anew.
    fn ask(&self, request: &[u8], max_answer: usize) -> Result<Vec<u8>, AgentError> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if line.rests_until.is_some_and(|until| now < until) {
            return Err(AgentError::Away);
        }
        let asked = self.ask_on(&mut line.connection, request, max_answer, now + self.deadline);
        line.rests_until = asked.is_err().then(|| Instant::now() + REST);
        asked
    }

    fn ask_on(
        &self,
        kept: &mut Option<UnixStream>,
        request: &[u8],
        max_answer: usize,
        until: Instant,
    ) -> Result<Vec<u8>, AgentError> {
        if let Some(mut stream) = kept.take()
            && let Ok(answer) = exchange(&mut stream, request, max_answer, until)
        {
            *kept = Some(stream);
            return Ok(answer);
        }
        let mut stream =
            connect(&self.socket).map_err(|source| AgentError::Connect { socket: self.socket.clone(), source })?;
        let answer = exchange(&mut stream, request, max_answer, until)?;
        *kept = Some(stream);
        Ok(answer)
    }
}

/// Connects at once or not at all: an agent that hangs would let us wait in its queue.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&stream, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&stream, true)?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    rustix::io::ioctl_fionbio(&stream, false)?;
    Ok(UnixStream::from(stream))
}

fn exchange(stream: &mut UnixStream, request: &[u8], max_answer: usize, until: Instant) -> Result<Vec<u8>, AgentError> {
    let mut framed = Vec::with_capacity(4 + request.len());
    push_string(&mut framed, request);
    let mut unsent = framed.as_slice();
    while !unsent.is_empty() {
        stream.set_write_timeout(Some(left(until)?)).map_err(AgentError::Silent)?;
        match stream.write(unsent) {
            Ok(sent) => unsent = unsent.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(AgentError::Silent(error)),
        }
    }
    let mut length = [0; 4];
    read(stream, &mut length, until)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length == 0 || length > max_answer {
        return Err(AgentError::Garbage("its length is impossible"));
    }
    let mut answer = vec![0; length];
    read(stream, &mut answer, until)?;
    Ok(answer)
}

/// Fills `buffer`. Each read is given what is left of the whole exchange: an answer that drips is late all the same.
fn read(stream: &mut UnixStream, buffer: &mut [u8], until: Instant) -> Result<(), AgentError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        stream.set_read_timeout(Some(left(until)?)).map_err(AgentError::Silent)?;
        match stream.read(rest) {
            Ok(0) => return Err(AgentError::Silent(io::ErrorKind::UnexpectedEof.into())),
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(AgentError::Silent(error)),
        }
    }
    Ok(())
}

fn left(until: Instant) -> Result<Duration, AgentError> {
    let left = until.saturating_duration_since(Instant::now());
    // No timeout at all is what the system understands by 0.
    if left.is_zero() { Err(AgentError::Silent(io::ErrorKind::TimedOut.into())) } else { Ok(left) }
}

/// The keys in a list of identities.
fn identities(answer: &[u8]) -> Result<Vec<&[u8]>, AgentError> {
    const CUT: AgentError = AgentError::Garbage("its list of keys is cut off");
    let mut rest = content(answer, IDENTITIES)?;
    let count = rest.split_off(..4).and_then(|count| count.try_into().ok()).map(u32::from_be_bytes).ok_or(CUT)?;
    let mut keys = Vec::new();
    for _ in 0..count {
        keys.push(take_string(&mut rest).ok_or(CUT)?);
        let _comment = take_string(&mut rest).ok_or(CUT)?;
    }
    Ok(keys)
}

/// The signature in an answer; nobody has checked it.
fn signature(answer: &[u8]) -> Result<Vec<u8>, AgentError> {
    const NONE: AgentError = AgentError::Garbage("it holds no Ed25519 signature");
    let mut outer = content(answer, SIGN_RESPONSE)?;
    let mut inner = take_string(&mut outer).ok_or(NONE)?;
    let (algorithm, signature) = (take_string(&mut inner).ok_or(NONE)?, take_string(&mut inner).ok_or(NONE)?);
    if algorithm != ALGORITHM || signature.len() != 64 || !inner.is_empty() || !outer.is_empty() {
        return Err(NONE);
    }
    Ok(signature.to_vec())
}

fn content(answer: &[u8], wanted: u8) -> Result<&[u8], AgentError> {
    match answer.split_first() {
        Some((kind, content)) if *kind == wanted => Ok(content),
        Some((&FAILURE, _)) => Err(AgentError::Refused),
        _ => Err(AgentError::Garbage("it is of another type")),
    }
}

/// The key as agents know it.
fn key_blob(vkey: &VerifierKey) -> Vec<u8> {
    let mut blob = Vec::new();
    push_string(&mut blob, ALGORITHM);
    push_string(&mut blob, vkey.public_key_bytes());
    blob
}

/// RFC 4251, section 5: a length and so many bytes. Ours are short: a key, a message of the longest note, 1 MiB.
fn push_string(to: &mut Vec<u8>, string: &[u8]) {
    to.extend_from_slice(&u32::try_from(string.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend_from_slice(string);
}

fn take_string<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(from.split_off(..4)?.try_into().ok()?);
    from.split_off(..usize::try_from(length).ok()?)
}

/// The Ed25519 key in a line of OpenSSH's public key format (`ssh-ed25519 AAAA… comment`).
pub fn parse_public_line(line: &str) -> Option<[u8; 32]> {
    let mut words = line.split_ascii_whitespace();
    let (algorithm, base64) = (words.next()?, words.next()?);
    let blob = merkle::decode_base64(base64)?;
    let mut rest = blob.as_slice();
    let (inner, key) = (take_string(&mut rest)?, take_string(&mut rest)?);
    let well_formed = algorithm.as_bytes() == ALGORITHM && inner == ALGORITHM && rest.is_empty();
    key.try_into().ok().filter(|_| well_formed)
}

#[cfg(test)]
mod tests;
