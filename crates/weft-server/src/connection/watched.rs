//! A connection with timeouts for its peer.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::places::Seat;

/// Time without progress after which a client that does not read is cut off. It can request what it missed again.
const STALL: Duration = Duration::from_secs(60);
/// Time limit for the head of a request after its first byte, and for the first one after the connection was
/// accepted. A head is one packet or two; this allows for the slowest of networks.
const HEAD: Duration = Duration::from_secs(15);

/// Time for which the rest of a body that nobody reads is received after the response was sent. A socket that is closed
/// with unread data resets the connection, and the client may lose the response.
const LINGER: Duration = Duration::from_secs(2);
/// Number of bytes received in one piece of such a body.
const PIECE: usize = 8 << 10;

/// A connection that fails if its peer has not read for [`STALL`], or has not sent the head of a request within
/// [`HEAD`].
pub(super) struct WatchedStream<S> {
    stream: S,
    seat: Arc<Seat>,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Set while the head of a request is expected.
    head: Option<Pin<Box<Sleep>>>,
    /// Set while the rest of a body is received.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl<S> WatchedStream<S> {
    pub(super) fn new(stream: S, seat: Arc<Seat>) -> Self {
        let head = Some(Box::pin(tokio::time::sleep(HEAD)));
        Self { stream, seat, stalled: None, head, lingering: None }
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        // Any progress restarts the timeout: slow readers are served, silent ones are not.
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        // Only when a write stalls: most connections need no timer.
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> WatchedStream<S> {
    /// Receives what the client still sends until it closes the connection, for at most [`LINGER`].
    fn discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let lingering = self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        while lingering.as_mut().poll(cx).is_pending() {
            let mut bytes = [0; PIECE];
            let mut piece = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece));
            // The end, or a connection that is broken.
            if read.is_err() || piece.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        // The time for a body is limited by its route; here only heads are.
        if self.seat.is_busy() {
            self.head = None;
            return read;
        }
        if read.is_ready() {
            // Only the first byte of a head starts its timeout; otherwise an occasional byte would hold a connection.
            self.head.get_or_insert_with(|| Box::pin(tokio::time::sleep(HEAD)));
            return read;
        }
        match &mut self.head {
            Some(head) => head.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // Requested only when nothing is left in the buffers of the layer above.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.seat.written();
        }
        self.written(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The stream is shut down once: when this is polled again, the client may have closed it.
        if self.lingering.is_none() {
            let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.written(cx, ended))?;
        }
        if self.seat.lingers() { self.discard(cx).map(Ok) } else { Poll::Ready(Ok(())) }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;
    use crate::connection::places::Places;
    use weft_app::config::ConnectionLimits;

    fn seat() -> Arc<Seat> {
        let places = Arc::new(Places::new(ConnectionLimits { all: 1, per_address: 1 }));
        Arc::new(places.enter("127.0.0.1".parse().unwrap()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_closed_and_a_slow_one_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut connection = WatchedStream::new(ours, seat());
        let begun = Instant::now();
        let (written, ()) = tokio::join!(connection.write_all(&[0; 40]), async {
            for _ in 0..4 {
                tokio::time::sleep(STALL - Duration::from_secs(1)).await;
                theirs.read_exact(&mut [0; 10]).await.unwrap();
            }
        });
        written.unwrap();
        assert!(begun.elapsed() > 3 * STALL - Duration::from_secs(10), "{:?}", begun.elapsed());
        let begun = Instant::now();
        let error = connection.write_all(&[0; 11]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, STALL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_head_that_never_ends_is_closed() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut connection = WatchedStream::new(ours, seat());
        let begun = Instant::now();
        let drip = async {
            while theirs.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let read = async {
            while connection.read(&mut [0; 10]).await? > 0 {}
            Ok::<_, io::Error>(())
        };
        tokio::select! {
            () = drip => panic!("the connection was not closed"),
            read = read => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut),
        }
        assert!(begun.elapsed() <= HEAD + Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_reads_is_received_for_a_short_time_only() {
        let (ours, _theirs) = tokio::io::duplex(10);
        let seat = seat();
        let mut connection = WatchedStream::new(ours, Arc::clone(&seat));
        let begun = Instant::now();
        connection.shutdown().await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "there is nothing to wait for");
        let (ours, mut sender) = tokio::io::duplex(10);
        let mut connection = WatchedStream::new(ours, Arc::clone(&seat));
        seat.linger();
        let (ended, ()) = tokio::join!(connection.shutdown(), async {
            sender.write_all(&[0; 100]).await.unwrap();
        });
        ended.unwrap();
        assert_eq!(begun.elapsed(), LINGER);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_hours_is_not_closed() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let seat = seat();
        let mut connection = WatchedStream::new(ours, Arc::clone(&seat));
        theirs.write_all(b"head").await.unwrap();
        connection.read_exact(&mut [0; 4]).await.unwrap();
        let busy = Seat::busy(&seat);
        let (mut input, mut output) = tokio::io::split(connection);
        let mut byte = [0];
        let mut gone = Box::pin(input.read(&mut byte));
        for _ in 0..3 {
            tokio::select! {
                read = &mut gone => panic!("{read:?}"),
                () = tokio::time::sleep(Duration::from_secs(3_600)) => {}
            }
            output.write_all(b"token").await.unwrap();
            theirs.read_exact(&mut [0; 5]).await.unwrap();
        }
        // After the response the client may be silent; the idle timeout is decided elsewhere.
        drop(busy);
        output.flush().await.unwrap();
        assert!(!seat.is_busy());
        tokio::select! {
            read = &mut gone => panic!("{read:?}"),
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
    }
}
