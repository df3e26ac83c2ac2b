//! Admission of connections, and eviction of idle ones.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use weft_app::config::ConnectionLimits;

/// Connections beyond the limit, on which only the state of the server can be requested.
const RESERVED: usize = 16;

/// All connections of a server.
pub(super) struct Places {
    limits: ConnectionLimits,
    inner: Mutex<PlaceTable>,
}

#[derive(Default)]
struct PlaceTable {
    /// Grows with each change: a lower number has been idle longer.
    next: u64,
    taken: HashMap<u64, TakenPlace>,
    /// Number of places in use, without the reserved ones.
    ordinary: usize,
    from: HashMap<IpAddr, Address>,
    /// Idle places, as the number since which they are idle and their id.
    idle: BTreeSet<(u64, u64)>,
}

/// The connections from one address.
#[derive(Default)]
struct Address {
    count: usize,
    idle: BTreeSet<(u64, u64)>,
}

struct TakenPlace {
    address: IpAddr,
    reserved: bool,
    /// The number since which it is idle.
    idle: Option<u64>,
    leave: CancellationToken,
}

impl Places {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, PlaceTable> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection from this address if one is free or an idle connection can be evicted.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let address = block(address);
        let (mut inner, limits) = (self.inner(), self.limits);
        // An address at its limit only evicts its own connections. If all of them are busy, it is refused.
        if inner.from.get(&address).is_some_and(|from| from.count >= limits.per_address) {
            let oldest = inner.from.get(&address).and_then(|from| from.idle.first().copied());
            inner.send_away(oldest?);
        }
        let mut reserved = false;
        if inner.ordinary >= limits.all {
            match inner.longest_idle(|taken| !taken.reserved) {
                Some(oldest) => inner.send_away(oldest),
                // All ordinary places are busy; the state of the server can still be requested.
                None => reserved = true,
            }
        }
        if reserved && inner.taken.len() - inner.ordinary >= RESERVED {
            let oldest = inner.longest_idle(|taken| taken.reserved)?;
            inner.send_away(oldest);
        }
        let leave = CancellationToken::new();
        let id = inner.take(TakenPlace { address, reserved, idle: None, leave: leave.clone() });
        let [busy, answered, lingers] = [const { AtomicBool::new(false) }; 3];
        Some(Seat { places: Arc::clone(self), id, reserved, busy, answered, lingers, leave })
    }

    /// Evicts the connection that has been idle longest.
    pub(super) fn make_room(&self) {
        let mut inner = self.inner();
        if let Some(oldest) = inner.idle.first().copied() {
            inner.send_away(oldest);
        }
    }
}

/// Returns the address or network to which a limit applies.
fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        // A host may use any address of its /64, so the limit applies to the network.
        IpAddr::V6(whole) => IpAddr::V6((whole.to_bits() & (u128::MAX << 64)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl PlaceTable {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn take(&mut self, taken: TakenPlace) -> u64 {
        let id = self.number();
        self.ordinary += usize::from(!taken.reserved);
        self.from.entry(taken.address).or_default().count += 1;
        self.taken.insert(id, taken);
        self.rests(id);
        id
    }

    /// Marks a place as idle.
    fn rests(&mut self, id: u64) {
        let since = self.number();
        // It may have been evicted in the meantime.
        let Some(taken) = self.taken.get_mut(&id) else { return };
        taken.idle = Some(since);
        self.idle.insert((since, id));
        self.from.entry(taken.address).or_default().idle.insert((since, id));
    }

    /// Marks a place as busy.
    fn works(&mut self, id: u64) {
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let Some(since) = taken.idle.take() else { return };
        self.idle.remove(&(since, id));
        if let Some(from) = self.from.get_mut(&taken.address) {
            from.idle.remove(&(since, id));
        }
    }

    fn longest_idle(&self, meant: impl Fn(&TakenPlace) -> bool) -> Option<(u64, u64)> {
        let of_kind = |(_, id): &&(u64, u64)| self.taken.get(id).is_some_and(&meant);
        self.idle.iter().find(of_kind).copied()
    }

    /// Evicts a connection: its place is free immediately, and it closes as soon as it notices.
    fn send_away(&mut self, (_, id): (u64, u64)) {
        if let Some(taken) = self.free(id) {
            taken.leave.cancel();
        }
    }

    fn free(&mut self, id: u64) -> Option<TakenPlace> {
        // Before the place is removed: the lists of idle places only contain places that exist.
        self.works(id);
        let taken = self.taken.remove(&id)?;
        self.ordinary -= usize::from(!taken.reserved);
        if let Some(from) = self.from.get_mut(&taken.address) {
            from.count -= 1;
            if from.count == 0 {
                self.from.remove(&taken.address);
            }
        }
        Some(taken)
    }
}

/// The place of a connection. Initially idle.
pub(super) struct Seat {
    places: Arc<Places>,
    id: u64,
    reserved: bool,
    busy: AtomicBool,
    /// Whether the whole answer has been handed over for writing.
    answered: AtomicBool,
    /// Whether the client may still be sending a body that nobody reads.
    lingers: AtomicBool,
    leave: CancellationToken,
}

impl Seat {
    /// Returns whether it is reserved for operators.
    pub(super) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Returns whether a request is being answered, or its answer is still being written.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Notes that the connection closes although its client may still be sending.
    pub(super) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client may still be sending when the connection closes.
    pub(super) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Completes when the connection has been evicted.
    pub(super) async fn left(&self) {
        self.leave.cancelled().await;
    }

    /// Marks the connection as answering a request until the returned guard is dropped and what was handed over by
    /// then is written.
    pub(super) fn busy(seat: &Arc<Self>) -> Busy {
        // Relaxed: the flags publish no other data, and the lists of idle places are behind their own lock.
        seat.answered.store(false, Ordering::Relaxed);
        seat.busy.store(true, Ordering::Relaxed);
        seat.places.inner().works(seat.id);
        Busy(Arc::clone(seat))
    }

    /// Notes that everything handed over so far is written: if that was the whole answer, the connection is idle.
    pub(super) fn written(&self) {
        if self.answered.swap(false, Ordering::Relaxed) {
            self.busy.store(false, Ordering::Relaxed);
            self.places.inner().rests(self.id);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places.inner().free(self.id);
    }
}

/// Guard for a request that is being answered.
pub(super) struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        // Not idle yet: an answer in one piece is dropped as soon as it is queued, long before a slow client has read
        // it.
        self.0.answered.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: usize, per_address: usize) -> Arc<Places> {
        Arc::new(Places::new(ConnectionLimits { all, per_address }))
    }

    fn enter(places: &Arc<Places>, address: &str) -> Option<Arc<Seat>> {
        places.enter(address.parse().unwrap()).map(Arc::new)
    }

    #[test]
    fn the_longest_idle_connection_is_closed_and_busy_ones_are_kept() {
        let places = places(3, 3);
        let (a, b, c) = (enter(&places, "10.0.0.1"), enter(&places, "10.0.0.2"), enter(&places, "10.0.0.3"));
        let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
        let working = Seat::busy(&a);
        let d = enter(&places, "10.0.0.4").unwrap();
        assert_eq!([&a, &b, &c, &d].map(|seat| seat.leave.is_cancelled()), [false, true, false, false]);
        // Once its answer is written it has waited for the shortest time of all.
        drop(working);
        assert!(a.is_busy(), "the answer is queued, and not written yet");
        a.written();
        assert!(!a.is_busy());
        let _e = enter(&places, "10.0.0.5").unwrap();
        assert_eq!([&a, &c, &d].map(|seat| seat.leave.is_cancelled()), [false, true, false]);
        // A closed connection does not free its slot twice.
        drop((b, c));
        assert_eq!(places.inner().ordinary, 3);
        drop((a, d));
        assert_eq!(places.inner().ordinary, 1);
    }

    #[test]
    fn reserved_slots_are_used_last_and_are_taken_back() {
        let places = places(1, 100);
        let first = enter(&places, "10.0.0.1").unwrap();
        let _working = Seat::busy(&first);
        let reserved: Vec<_> = (0..RESERVED).map(|_| enter(&places, "10.0.0.2").unwrap()).collect();
        assert!(!first.is_reserved() && reserved.iter().all(|seat| seat.is_reserved()));
        let _answering: Vec<_> = reserved[1..].iter().map(Seat::busy).collect();
        assert!(enter(&places, "10.0.0.3").is_some(), "the idle connection is closed");
        assert!(reserved[0].leave.is_cancelled());
    }

    #[test]
    fn an_address_over_its_limit_closes_only_its_own_connections() {
        let places = places(100, 2);
        let other = enter(&places, "10.0.0.9").unwrap();
        let (a, b) = (enter(&places, "2001:db8::1").unwrap(), enter(&places, "2001:db8::2").unwrap());
        let c = enter(&places, "2001:db8::3").unwrap();
        assert_eq!([&other, &a, &b, &c].map(|seat| seat.leave.is_cancelled()), [false, true, false, false]);
        let _working = (Seat::busy(&b), Seat::busy(&c));
        assert!(enter(&places, "2001:db8::4").is_none());
        assert!(enter(&places, "2001:db8:0:1::4").is_some());
        // An address counts as the same however it is written.
        let (_d, _e) = (enter(&places, "::ffff:10.0.0.9").unwrap(), enter(&places, "10.0.0.9").unwrap());
        assert!(other.leave.is_cancelled());
    }

    #[test]
    fn closed_connections_leave_no_state() {
        let places = places(10, 10);
        for round in 0..50_u32 {
            let seat = enter(&places, &format!("10.0.0.{round}")).unwrap();
            drop(Seat::busy(&seat));
        }
        let inner = places.inner();
        assert!(
            inner.taken.is_empty() && inner.from.is_empty() && inner.idle.is_empty() && inner.ordinary == 0
        );
    }
}
