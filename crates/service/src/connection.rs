//! One accepted connection: a stream that cuts readers which do not read, and that closes so that the
//! last answer still arrives. It knows bytes and time, not HTTP.
//!
//! ```text
//! write pending ──> deadline runs ──(bytes taken: deadline moves by bytes / rate)──> all flushed: deadline off
//!                        └── deadline passed: TimedOut, the connection is dropped
//! shutdown ──> our FIN ──> read and discard (bounded) until the peer's FIN ──> closed
//! ```
//!
//! Without the second half, closing while the peer is still sending (a refused upload) makes the kernel
//! answer with a reset, and the reset discards the refusal before the peer has read it.

use crate::limits::Limits;
use crate::places::Seat;
use crate::socket::Socket;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes discarded after our end is closed: the largest refused upload that a well-meaning client has
/// usually put on the wire before it looks for an answer (one default Linux send buffer at its most).
const LINGER_BYTES: usize = 4 * 1024 * 1024;
/// How long the other end gets to close too.
const LINGER: Duration = Duration::from_millis(1000);

pub(crate) struct BoundedStream {
    stream: Socket,
    write_deadline: Duration,
    write_bytes_per_s: u64,
    stall: Option<Pin<Box<Sleep>>>,
    linger: Option<Linger>,
    standing: Option<Standing>,
    /// Something was written since the last flush. (hyper flushes at every turn, also when it has nothing to say.)
    wrote: bool,
}

/// Whose turn it is on this connection: told by the HTTP side, by the body and by the bytes, and read by whoever gives places
/// away.
#[derive(Clone)]
pub(crate) struct Standing {
    seat: Arc<Seat>,
    serving: Arc<AtomicBool>,
}

impl Standing {
    pub(crate) fn new(seat: Arc<Seat>) -> Self {
        Self { seat, serving: Arc::default() }
    }

    /// The headers of a request have come.
    pub(crate) fn serving(&self) {
        self.serving.store(true, Ordering::Relaxed);
        self.seat.has_asked();
    }

    /// All of its body has come.
    pub(crate) fn has_all(&self) {
        if self.serving.load(Ordering::Relaxed) {
            self.seat.is_busy();
        }
    }

    /// Its answer is there, and about to be sent.
    pub(crate) fn served(&self) {
        self.serving.store(false, Ordering::Relaxed);
        self.seat.is_answered();
        self.seat.is_busy();
    }

    /// Bytes went out.
    fn sends(&self) {
        // What goes out while a request is served is an invitation to send its body: then it is the peer's turn still.
        if !self.serving.load(Ordering::Relaxed) {
            self.seat.is_busy();
        }
    }

    /// Everything went out.
    fn sent(&self) {
        if !self.serving.load(Ordering::Relaxed) {
            self.seat.waits();
        }
    }
}

struct Linger {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl BoundedStream {
    pub(crate) fn new(stream: Socket, limits: &Limits) -> Self {
        Self {
            stream,
            write_deadline: Duration::from_millis(limits.write_deadline_ms),
            write_bytes_per_s: limits.write_bytes_per_s.max(1),
            stall: None,
            linger: None,
            standing: None,
            wrote: false,
        }
    }

    /// The same, telling `standing` what it does.
    pub(crate) fn telling(self, standing: Standing) -> Self {
        Self { standing: Some(standing), ..self }
    }

    /// What a write that went through, or did not, means for the deadline.
    fn account(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.wrote = true;
                if let Some(standing) = &self.standing {
                    standing.sends();
                }
                if let Some(stall) = &mut self.stall {
                    let earned = Duration::from_secs_f64(bytes as f64 / self.write_bytes_per_s as f64);
                    let deadline = stall.deadline() + earned;
                    stall.as_mut().reset(deadline);
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Pending => {
                if let Some(standing) = &self.standing {
                    standing.seat.stalls();
                }
                let deadline = self.write_deadline;
                let stall = self.stall.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + deadline)));
                ready!(stall.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read its answer")))
            }
            failed => failed,
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.account(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.account(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once its own buffer is empty, so this is where an answer counts as taken.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.stall = None;
        if let Some(standing) = self.standing.as_ref().filter(|_| self.wrote) {
            standing.sent();
        }
        self.wrote = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.linger =
                Some(Linger { until: Box::pin(sleep_until(Instant::now() + LINGER)), bytes_left: LINGER_BYTES });
        }
        let Self { stream, linger: Some(linger), .. } = &mut *self else { return Poll::Ready(Ok(())) };
        let mut scratch = [0u8; 8 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    linger.bytes_left = linger.bytes_left.saturating_sub(buffer.filled().len());
                    if linger.bytes_left == 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
                // The peer's end is closed, or broken: either way nothing more can be lost.
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(linger.until.as_mut().poll(cx));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}
