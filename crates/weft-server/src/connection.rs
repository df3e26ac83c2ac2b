//! Connections with limits: so many at once, and none whose other side has stopped reading.

use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Connections at once; further ones wait in the system's queue.
const CONNECTIONS_MAX: usize = 16_384;

/// Who reads nothing for so long is cut off. What they missed can be asked for again.
const STALL: Duration = Duration::from_secs(60);

/// A listener that gives out limited connections.
pub(crate) struct Guarded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Guarded {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self::with_places(listener, CONNECTIONS_MAX)
    }

    fn with_places(listener: TcpListener, count_max: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(count_max)) }
    }
}

impl Listener for Guarded {
    type Io = Connection<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed; if it were, nobody could come in.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Each token is a packet of its own, and it should leave at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off delays of a connection");
        }
        (Connection { stream, stalled: None, _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails when its other side has not read for [`STALL`].
pub(crate) struct Connection<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S> Connection<S> {
    fn watched<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watched(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watched(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watched(cx, ended)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watched(cx, written)
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

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_cut_off_and_who_reads_slowly_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut connection = Connection { stream: ours, stalled: None, _place: None };
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

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut guarded = Guarded::with_places(listener, 1);
        let _clients =
            (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let (first, _) = guarded.accept().await;
        assert_eq!(guarded.places.available_permits(), 0);
        drop(first);
        let (_second, _) = guarded.accept().await;
    }
}
