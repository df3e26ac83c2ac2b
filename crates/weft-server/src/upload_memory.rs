//! Memory for what is being received: the files and the larger bodies of all requests of a process together hold a
//! limited amount of it, and those of one tenant half of that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{Extensions, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_core::TenantId;

use crate::body::BodyMax;
use crate::error::{ApiError, code};
use crate::state::ServerState;

/// The unit in which memory is counted, in bytes. Bodies of at most this size are not counted: the number of connections
/// limits them, as it does the heads of requests, which may be as large.
const UNIT: usize = 64 << 10;

/// Maximum time that a request waits for memory.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The memory of a process for what it receives. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct UploadMemory {
    units: Arc<Semaphore>,
    /// For the one file or body that may exceed the limits: otherwise incomplete ones could use up the memory, and all
    /// wait for each other.
    beyond: Arc<Semaphore>,
    /// The units that one tenant may hold, so that slow requests of one cannot stop those of all others.
    of_tenant: usize,
    /// The units of the tenants that are sending something.
    tenants: Arc<Mutex<HashMap<TenantId, Weak<Semaphore>>>>,
}

impl UploadMemory {
    /// Creates a memory of this many bytes, in whole units.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units = bytes_max.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            units: Arc::new(Semaphore::new(units)),
            beyond: Arc::new(Semaphore::new(1)),
            of_tenant: units.div_ceil(2),
            tenants: Arc::default(),
        }
    }

    /// Returns the share of a file or a body of this tenant of which nothing has arrived yet.
    pub(crate) fn share(&self, tenant: &TenantId) -> UploadShare {
        UploadShare { memory: self.clone(), own: self.units_of(tenant), units: None, beyond: None }
    }

    fn units_of(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(units) = tenants.get(tenant).and_then(Weak::upgrade) {
            return units;
        }
        tenants.retain(|_, units| units.strong_count() > 0);
        let units = Arc::new(Semaphore::new(self.of_tenant));
        tenants.insert(tenant.clone(), Arc::downgrade(&units));
        units
    }
}

/// What one file or body takes of the memory, until this is dropped.
#[derive(Debug)]
pub(crate) struct UploadShare {
    memory: UploadMemory,
    /// The units that its tenant may hold.
    own: Arc<Semaphore>,
    /// The same number of the tenant's units and of all.
    units: Option<[OwnedSemaphorePermit; 2]>,
    /// Present for the one that may exceed the limits, which takes no more units.
    beyond: Option<OwnedSemaphorePermit>,
}

impl UploadShare {
    /// Takes what is missing for a file or a body that has grown to this many bytes.
    ///
    /// # Errors
    /// 503 when other requests do not return enough memory in time.
    pub(crate) async fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        let held = self.units.as_ref().map_or(0, |[own, _]| own.num_permits());
        let missing = bytes.div_ceil(UNIT).saturating_sub(held);
        if missing == 0 || self.beyond.is_some() {
            return Ok(());
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let own = Arc::clone(&self.own);
        let (all, beyond) = (Arc::clone(&self.memory.units), Arc::clone(&self.memory.beyond));
        let within = async move {
            // Its tenant's first: what waits for those must not stand in line before other tenants.
            let own = own.acquire_many_owned(missing).await.ok()?;
            Some([own, all.acquire_many_owned(missing).await.ok()?])
        };
        let waiting = async move {
            tokio::select! {
                // The limit is only exceeded when there is no other memory.
                biased;
                units = within => (units, None),
                beyond = beyond.acquire_owned() => (None, beyond.ok()),
            }
        };
        let (units, beyond) = tokio::time::timeout(WAIT_MAX, waiting).await.map_err(|_| full())?;
        self.beyond = beyond;
        if let Some(more) = units {
            match &mut self.units {
                Some(units) => units.iter_mut().zip(more).for_each(|(units, more)| units.merge(more)),
                units => *units = Some(more),
            }
        }
        Ok(())
    }
}

fn full() -> ApiError {
    let message = "other requests hold all memory for bodies and for files that are not stored yet; send the request \
                   again later, or have an operator raise `limits.upload_memory_bytes`";
    ApiError::new(code::TOO_MANY, message).with_status(StatusCode::SERVICE_UNAVAILABLE)
}

/// The memory for the body of one request, as an extension of the request. Clones share it.
#[derive(Clone, Debug)]
struct BodyMemory(Arc<ReceivedBody>);

#[derive(Debug)]
struct ReceivedBody {
    memory: UploadMemory,
    /// Set once it is known.
    tenant: OnceLock<TenantId>,
    /// What has arrived, in bytes, and its share. Locked while a piece of it waits for memory.
    arrived: tokio::sync::Mutex<(usize, Option<UploadShare>)>,
    refused: AtomicBool,
}

impl BodyMemory {
    fn new(memory: UploadMemory) -> Self {
        let (tenant, arrived) = (OnceLock::new(), tokio::sync::Mutex::default());
        Self(Arc::new(ReceivedBody { memory, tenant, arrived, refused: AtomicBool::new(false) }))
    }

    fn counted(&self, body: Body) -> Body {
        if body.size_hint().upper().is_some_and(|bytes| bytes <= UNIT as u64) {
            return body;
        }
        let pieces = joined(body.into_data_stream().fuse());
        let Some(tenant) = self.0.tenant.get().cloned() else { return Body::from_stream(pieces) };
        let received = Arc::clone(&self.0);
        let pieces = pieces.then(move |piece| {
            let (received, tenant) = (Arc::clone(&received), tenant.clone());
            async move {
                let piece = piece?;
                let mut arrived = received.arrived.lock().await;
                let (bytes, share) = &mut *arrived;
                *bytes += piece.len();
                let share = share.get_or_insert_with(|| received.memory.share(&tenant));
                if share.grow_to(*bytes).await.is_err() {
                    received.refused.store(true, Ordering::Relaxed);
                    return Err(axum::Error::new("there is no memory for the body"));
                }
                Ok(piece)
            }
        });
        Body::from_stream(pieces)
    }
}

/// Joins the pieces of a body to larger ones. Each would otherwise be kept as a piece of its own until the end: a body of
/// chunks of one byte would take forty times its size.
fn joined(
    pieces: impl Stream<Item = Result<Bytes, axum::Error>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static {
    stream::try_unfold(pieces, |mut pieces| async move {
        let mut joined = Vec::new();
        while joined.len() < UNIT {
            let Some(piece) = pieces.try_next().await? else { break };
            joined.extend_from_slice(&piece);
        }
        let more = (!joined.is_empty()).then(|| (Bytes::from(joined), pieces));
        Ok::<_, axum::Error>(more)
    })
}

/// Sets the tenant whose memory the body of a request takes. Without one nothing is counted: what may be sent without a
/// token is small.
pub(crate) fn belongs_to(request: &Extensions, tenant: &TenantId) {
    if let Some(BodyMemory(body)) = request.get::<BodyMemory>() {
        // Setting it a second time has no effect.
        let _ = body.tenant.set(tenant.clone());
    }
}

/// Returns the body of a request that takes memory as it arrives. It ends with an error when there is none, which the
/// refusal then has.
pub(crate) fn counted(request: &Extensions, body: Body) -> (Body, MemoryRefusal) {
    match request.get::<BodyMemory>() {
        Some(memory) => (memory.counted(body), MemoryRefusal(Some(memory.clone()))),
        None => (body, MemoryRefusal(None)),
    }
}

/// Why a body ended early.
#[derive(Debug)]
pub(crate) struct MemoryRefusal(Option<BodyMemory>);

impl MemoryRefusal {
    /// Returns the error if there was no memory for the body.
    pub(crate) fn error(&self) -> Option<ApiError> {
        let BodyMemory(body) = self.0.as_ref()?;
        // Relaxed: the body is read in the task that asks.
        body.refused.load(Ordering::Relaxed).then(full)
    }
}

/// Keeps the memory for the body of a request until the request is answered, or its stream has started.
pub(crate) async fn hold_bodies(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let memory = BodyMemory::new(state.upload_memory.clone());
    request.extensions_mut().insert(memory.clone());
    request.extensions_mut().insert(BodyMax(state.app.limits.body_bytes));
    let response = next.run(request).await;
    drop(memory);
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::from(name)
    }

    fn free(memory: &UploadMemory) -> (usize, usize) {
        (memory.units.available_permits(), memory.beyond.available_permits())
    }

    #[tokio::test(start_paused = true)]
    async fn one_file_may_exceed_the_limit_and_the_others_wait() {
        let memory = UploadMemory::new(2 * UNIT);
        let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| memory.share(&tenant(name)));
        a.grow_to(UNIT).await.unwrap();
        b.grow_to(1).await.unwrap();
        b.grow_to(UNIT).await.unwrap();
        a.grow_to(100 * UNIT).await.unwrap();
        for waiting in [b.grow_to(UNIT + 1).await, c.grow_to(1).await] {
            assert!(waiting.unwrap_err().message().contains("limits.upload_memory_bytes"));
        }
        let other = async {
            tokio::time::sleep(WAIT_MAX / 2).await;
            drop(a);
        };
        let (grown, ()) = tokio::join!(b.grow_to(2 * UNIT), other);
        grown.unwrap();
        c.grow_to(1).await.unwrap();
        assert_eq!(free(&memory), (0, 0));
        drop((b, c));
        assert_eq!(free(&memory), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn one_tenant_leaves_half_of_the_memory_to_the_others() {
        let memory = UploadMemory::new(8 * UNIT);
        let mut greedy: Vec<_> = (0..6).map(|_| memory.share(&tenant("greedy"))).collect();
        let grown = futures::future::join_all(greedy.iter_mut().map(|share| share.grow_to(UNIT))).await;
        // Half of the memory, and the one that may exceed it.
        assert_eq!(grown.iter().filter(|grown| grown.is_ok()).count(), 5);
        assert_eq!(free(&memory), (4, 0));
        memory.share(&tenant("other")).grow_to(4 * UNIT).await.unwrap();
        drop(greedy);
        assert_eq!(free(&memory), (8, 1));
        drop(memory.share(&tenant("third")));
        assert_eq!(memory.tenants.lock().unwrap().len(), 1, "tenants that send nothing are forgotten");
    }

    fn streamed(pieces: usize) -> Body {
        let pieces = vec![Ok::<_, Infallible>(vec![0_u8; UNIT]); pieces];
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_memory_as_they_arrive_and_small_ones_need_none() {
        let memory = UploadMemory::new(2 * UNIT);
        let extensions_of = |name: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(BodyMemory::new(memory.clone()));
            belongs_to(&extensions, &tenant(name));
            extensions
        };
        let read = async |of: &Extensions, body: Body| {
            let (body, refusal) = counted(of, body);
            let read = axum::body::to_bytes(body, usize::MAX).await;
            read.map(|bytes| bytes.len()).map_err(|_| refusal.error().unwrap())
        };
        let (a, b, c) = (extensions_of("a"), extensions_of("b"), extensions_of("c"));
        // The second piece is beyond what a tenant may have.
        assert_eq!(read(&a, streamed(2)).await.unwrap(), 2 * UNIT);
        assert_eq!(free(&memory), (1, 0));
        assert_eq!(read(&b, streamed(1)).await.unwrap(), UNIT);
        let refused = read(&c, streamed(1)).await.unwrap_err();
        assert!(refused.message().contains("limits.upload_memory_bytes"));
        assert_eq!(read(&c, Body::from(vec![0_u8; UNIT])).await.unwrap(), UNIT, "it is small");
        drop((a, b, c));
        assert_eq!(free(&memory), (2, 1));
    }

    #[tokio::test]
    async fn small_pieces_of_a_body_are_joined() {
        let mut extensions = Extensions::new();
        extensions.insert(BodyMemory::new(UploadMemory::new(UNIT)));
        let pieces = vec![Ok::<_, Infallible>("x"); 2 * UNIT + 1];
        let (body, _) = counted(&extensions, Body::from_stream(stream::iter(pieces)));
        let pieces: Vec<Bytes> = body.into_data_stream().try_collect().await.unwrap();
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [UNIT, UNIT, 1]);
    }
}
