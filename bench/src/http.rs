//! Just enough HTTP/1.1 to ask one log one thing after another over a kept connection, with as little work as can be:
//! the load shares the machine with what it measures. Requests are made beforehand and written at once; answers are
//! read into one buffer that is used again.

use memchr::memmem;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The most bytes of one answer: that to a batch of 256 is about 300 KB.
const MAX_ANSWER: usize = 64 << 20;
/// What one read asks for at least.
const READ: usize = 16 << 10;

/// A connection to the log, with no request under way.
pub(crate) struct Connection {
    stream: TcpStream,
    raw: Vec<u8>,
    unchunked: Vec<u8>,
}

/// What the log said.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// HTTP status.
    pub(crate) status: u16,
    /// The body, whole.
    pub(crate) body: &'a [u8],
}

/// A request as it is written: line, headers and body in one piece.
pub(crate) fn request(method: &str, path: &str, more_headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: log\r\n{more_headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, raw: Vec::with_capacity(READ), unchunked: Vec::new() })
    }

    /// Sends a request of [`request`] and reads the whole answer.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` when the log closes, `InvalidData` for what is no answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.raw.clear();
        let head = loop {
            self.read_more().await?;
            if let Some(head) = Head::parse(&self.raw)? {
                break head;
            }
        };
        let body = match head.length {
            Length::Bytes(bytes) => {
                let end = head.end.checked_add(bytes).filter(|end| *end <= MAX_ANSWER).ok_or_else(no_answer)?;
                while self.raw.len() < end {
                    self.read_more().await?;
                }
                self.nothing_after(end)?;
                &self.raw[head.end..end]
            }
            Length::Chunks => {
                self.unchunked.clear();
                let mut at = head.end;
                while !unchunk(&self.raw, &mut at, &mut self.unchunked)? {
                    self.read_more().await?;
                }
                self.nothing_after(at)?;
                self.unchunked.as_slice()
            }
        };
        Ok(Answer { status: head.status, body })
    }

    async fn read_more(&mut self) -> io::Result<()> {
        if self.raw.len() > MAX_ANSWER {
            return Err(no_answer());
        }
        self.raw.reserve(READ);
        match self.stream.read_buf(&mut self.raw).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the log closed the connection before it answered")),
            _ => Ok(()),
        }
    }

    /// One request is answered once.
    fn nothing_after(&self, end: usize) -> io::Result<()> {
        if self.raw.len() == end { Ok(()) } else { Err(no_answer()) }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Length,
    /// Where the body begins.
    end: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunks,
}

impl Head {
    /// `None` while it is not all there.
    fn parse(raw: &[u8]) -> io::Result<Option<Head>> {
        let Some(end) = memmem::find(raw, b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&raw[..end]).map_err(|_| no_answer())?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).and_then(|line| line.get(..3));
        let status = status.and_then(|status| status.parse().ok()).ok_or_else(no_answer)?;
        let mut length = None;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(Length::Bytes(value.trim().parse().map_err(|_| no_answer())?));
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                length = Some(Length::Chunks);
            }
        }
        Ok(Some(Head { status, length: length.ok_or_else(no_answer)?, end: end + 4 }))
    }
}

/// Takes whole chunks from `raw`, beginning at `at`; true once the last was taken.
fn unchunk(raw: &[u8], at: &mut usize, body: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let rest = &raw[*at..];
        let Some(line) = memmem::find(rest, b"\r\n") else { return Ok(false) };
        let size = std::str::from_utf8(&rest[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.filter(|size| *size <= MAX_ANSWER).ok_or_else(no_answer)?;
        let (begin, end) = (line + 2, line + 2 + size);
        let Some(chunk) = rest.get(begin..end + 2) else { return Ok(false) };
        if !chunk.ends_with(b"\r\n") {
            return Err(no_answer());
        }
        body.extend_from_slice(&chunk[..size]);
        *at += end + 2;
        if size == 0 {
            return Ok(true);
        }
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the log answered with something that is no answer to this request")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole_and_must_say_how_long_the_body_is() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\nhello";
        for cut in 0..whole.len() - 5 {
            assert_eq!(Head::parse(&whole[..cut]).unwrap(), None);
        }
        let head = Head { status: 200, length: Length::Bytes(5), end: whole.len() - 5 };
        assert_eq!(Head::parse(whole).unwrap(), Some(head));
        for bad in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", "200\r\n\r\n"] {
            assert!(Head::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn chunks_become_one_body_wherever_the_reads_cut_them() {
        let raw = b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n";
        for first in 0..raw.len() {
            let (mut at, mut body) = (0, Vec::new());
            assert!(!unchunk(&raw[..first], &mut at, &mut body).unwrap());
            assert!(unchunk(raw, &mut at, &mut body).unwrap());
            assert_eq!((body.as_slice(), at), (b"abc0123456789".as_slice(), raw.len()));
        }
        assert!(unchunk(b"zz\r\n", &mut 0, &mut Vec::new()).is_err());
        assert!(unchunk(b"1\r\nab\r\n", &mut 0, &mut Vec::new()).is_err());
    }
}
