//! The body of a request, which returns to its connection when a handler has not read it to the end: the next request
//! can only be read after it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// Maximum number of unread bytes that are read so that a connection can be kept: those of a request without a token.
const REST_BYTES_MAX: u64 = 64 << 10;
/// Time limit for these bytes to arrive. The response waits for them, because it says whether the connection closes.
const REST_TIME: Duration = Duration::from_millis(500);

/// Returns the body for the handler of a request, and what tells afterwards whether it was read.
pub(super) fn lent(body: Body) -> (Body, Lent) {
    if body.is_end_stream() {
        return (body, Lent(None));
    }
    let (owner, returned) = oneshot::channel();
    (Body::new(LentBody { open: Some((body, owner)) }), Lent(Some(returned)))
}

/// A body that a handler has.
pub(super) struct Lent(Option<oneshot::Receiver<Body>>);

impl Lent {
    /// Returns the body if the handler has dropped it before its end.
    pub(super) fn unread(self) -> Option<Body> {
        // While a handler still reads it, there is none: it decides itself how much it reads.
        self.0?.try_recv().ok()
    }
}

/// Reads what is left of a body. Returns whether its end was reached, within limits of size and time.
pub(super) async fn arrives(rest: Body) -> bool {
    // With a known length there is no need to wait.
    if rest.size_hint().lower() > REST_BYTES_MAX {
        return false;
    }
    let mut pieces = rest.into_data_stream();
    let reading = async {
        let mut count = 0;
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else { return false };
            count += piece.len() as u64;
            if count > REST_BYTES_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(REST_TIME, reading).await.unwrap_or(false)
}

/// A body that is sent back when it is dropped before its end.
struct LentBody {
    /// Absent once the end was read.
    open: Option<(Body, oneshot::Sender<Body>)>,
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if let Some((body, owner)) = self.open.take()
            && !body.is_end_stream()
        {
            // An error means that the connection has ended, and nothing waits for the rest.
            drop(owner.send(body));
        }
    }
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some((body, _)) = &mut self.open else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if frame.is_none() {
            self.open = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.open.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.open.as_ref().map_or_else(|| SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;

    use super::*;

    fn chunked(pieces: usize, bytes: usize) -> Body {
        let pieces = vec![Ok::<_, Infallible>(Bytes::from(vec![0; bytes])); pieces];
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn only_a_body_that_was_not_read_to_its_end_returns() {
        let (body, lent_body) = lent(Body::empty());
        drop(body);
        assert!(lent_body.unread().is_none());
        let (body, lent_body) = lent(chunked(3, 10));
        assert_eq!(axum::body::to_bytes(body, 100).await.unwrap().len(), 30);
        assert!(lent_body.unread().is_none());
        let (body, lent_body) = lent(chunked(3, 10));
        let mut pieces = body.into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap().len(), 10);
        drop(pieces);
        let rest = lent_body.unread().unwrap();
        assert_eq!(axum::body::to_bytes(rest, 100).await.unwrap().len(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_body_is_read_within_limits() {
        assert!(arrives(chunked(64, 1 << 10)).await);
        assert!(!arrives(chunked(65, 1 << 10)).await);
        assert!(!arrives(Body::from(vec![0_u8; (64 << 10) + 1])).await);
        assert!(!arrives(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())).await);
    }
}
