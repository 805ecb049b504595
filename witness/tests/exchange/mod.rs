//! One HTTP/1.1 connection, byte for byte: what a client library would put right or hide is sent and seen here.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lowercase.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    /// To a server at `http://address`.
    pub(crate) async fn open(url: &str) -> Connection {
        let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
        Connection { stream: BufReader::new(stream) }
    }

    /// Sends a request and reads its answer; the connection can be used again.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Answer {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: w\r\ncontent-length: {}\r\n\r\n", body.len());
        self.stream.write_all(head.as_bytes()).await.unwrap();
        // A refusal may come, and the connection go, before the body is taken.
        let _ = self.stream.write_all(body).await;
        self.answer(method).await
    }

    /// Posts a body without saying how long it is, in chunks of seven bytes.
    pub(crate) async fn post_in_chunks(&mut self, path: &str, body: &[u8]) -> Answer {
        let mut sent = format!("POST {path} HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(7) {
            sent.extend(format!("{:x}\r\n", chunk.len()).bytes());
            sent.extend(chunk);
            sent.extend(b"\r\n");
        }
        sent.extend(b"0\r\n\r\n");
        self.stream.write_all(&sent).await.unwrap();
        self.answer("POST").await
    }

    async fn answer(&mut self, method: &str) -> Answer {
        let status = self.line().await.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if method != "HEAD" {
            answer.body = match answer.header("content-length") {
                Some(length) => self.bytes(length.parse().unwrap()).await,
                None => self.chunks().await,
            };
        }
        answer
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line().await, 16).unwrap();
            body.extend(self.bytes(length).await);
            assert_eq!(self.line().await, "", "a chunk ends in a line end");
            if length == 0 {
                return body;
            }
        }
    }

    async fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.strip_suffix("\r\n").unwrap().to_owned()
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One request on a connection of its own.
pub(crate) async fn ask(url: &str, method: &str, path: &str, body: &[u8]) -> Answer {
    Connection::open(url).await.ask(method, path, body).await
}
