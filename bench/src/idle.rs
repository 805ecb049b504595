//! Logs in which nothing happens: one thread that serves the checkpoints of all of them.

use crate::failure::Failure;
use merkle::{MemoryTree, leaf_hash};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Entries of each log.
const SIZE: u64 = 10;
/// The longest request that a witness sends.
const MAX_REQUEST: usize = 8 * 1024;

/// All logs.
pub(crate) struct Idle {
    /// Answers by path.
    answers: HashMap<String, Vec<u8>>,
    /// The sections of a witness's configuration.
    pub(crate) sections: String,
    asked: AtomicU64,
}

impl Idle {
    /// So many logs, to be served at `address`.
    pub(crate) fn new(logs: usize, address: SocketAddr) -> Result<Idle, Failure> {
        let (mut answers, mut sections) = (HashMap::new(), String::new());
        let mut tree = MemoryTree::new();
        (0..SIZE).for_each(|index| tree.push(leaf_hash(&index.to_be_bytes())));
        for number in 0..logs {
            let name = KeyName::new(&format!("log.example/{number}")).map_err(Failure::unexpected)?;
            let key = SigningKey::from_seed(name, KeyKind::Ed25519, [9; 32]);
            let head = Checkpoint::new(Origin::from(key.name()), tree.size(), tree.root());
            let head = sign_checkpoint(&head, &key).map_err(Failure::unexpected)?;
            let length = head.bytes().len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            answers.insert(format!("/{number}/checkpoint"), [answer.as_bytes(), head.bytes()].concat());
            sections.push_str(&format!(
                "\n[[log]]\nvkey = \"{}\"\nurl = \"http://{address}/{number}\"\nprivate_address = true\n",
                key.verifier()
            ));
        }
        Ok(Idle { answers, sections, asked: AtomicU64::new(0) })
    }

    /// How many checkpoints were asked for.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Answers until the future is dropped.
    pub(crate) async fn serve(self: Arc<Idle>, listener: std::net::TcpListener) -> std::io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let idle = Arc::clone(&self);
            // A witness that hangs up is done.
            tokio::spawn(async move { idle.answer(stream).await });
        }
    }

    async fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut buffer, mut filled) = (vec![0; MAX_REQUEST], 0);
        while filled < buffer.len() {
            let read = stream.read(&mut buffer[filled..]).await?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            if !buffer[..filled].ends_with(b"\r\n\r\n") {
                continue;
            }
            let request = String::from_utf8_lossy(&buffer[..filled]);
            let path = request.split(' ').nth(1).unwrap_or_default();
            let answer = self
                .answers
                .get(path)
                .map_or(&b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"[..], Vec::as_slice);
            self.asked.fetch_add(1, Ordering::Relaxed);
            stream.write_all(answer).await?;
            filled = 0;
        }
        Ok(())
    }
}
