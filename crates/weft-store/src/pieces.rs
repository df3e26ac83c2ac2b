//! Stores large values as content-addressed pieces.
//!
//! A value is split at positions determined by its content, not at fixed ones: a change or insertion affects only the
//! pieces around it. Each piece is stored once per session, however many values of the session contain it, so saving
//! a state of a megabyte costs a turn only what the turn changed. Pieces belong to their session and are removed with
//! it; unreferenced ones are swept when runs are removed.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use fastcdc::v2020::FastCDC;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, IntoActiveModel, QuerySelect};
use weft_core::id::SessionKey;
use weft_core::{Error, ErrorKind, Result};

use crate::batch::Batch;
use crate::compress::{compress, decompress};
use crate::ids::text;
use crate::pack::{put, take};
use crate::rows::piece::{Column, Entity, Model};
use crate::rows::{ROWS_AT_ONCE_MAX, session};
use crate::session_dictionary;

/// Values of at least this many bytes are split.
pub(crate) const CUT_FROM: usize = 32 * 1024;

/// Minimum, average and maximum length of a piece; only the last one may be shorter. Smaller pieces would lengthen
/// the lists by more than they save.
const PIECE_MIN: usize = 2 * 1024;
const PIECE_AIM: usize = 8 * 1024;
const PIECE_MAX: usize = 32 * 1024;

/// Maximum number of pieces of one value that are written by one statement.
const PIECES_AT_ONCE_MAX: usize = 64;

/// The first byte of a list, which distinguishes it from other bodies.
pub(crate) const LIST: u8 = 3;

/// The number of bytes at the start of a body that identify its dictionary.
pub(crate) const NAMED_BASE_BYTES: usize = 1 + size_of::<Name>();

/// The encoding of a piece.
const PLAIN: u8 = 0;
const COMPRESSED: u8 = 1;

/// The first sixteen bytes of a hash: pieces share a namespace only within their session.
pub(crate) type Name = [u8; 16];

/// A value split into pieces.
pub(crate) struct Cut {
    value: Arc<[u8]>,
    pieces: Vec<(Name, Range<usize>)>,
    /// Prepared rows of pieces that were not stored when that was last checked.
    ready: HashMap<Name, Model>,
}

impl Cut {
    pub(crate) fn new(value: Vec<u8>) -> Self {
        let cuts = FastCDC::new(&value, PIECE_MIN, PIECE_AIM, PIECE_MAX);
        let ranges = cuts.map(|cut| cut.offset..cut.offset + cut.length);
        let pieces = ranges.map(|range| (name(&value[range.clone()]), range)).collect();
        Self { pieces, value: value.into(), ready: HashMap::new() }
    }

    /// The list of pieces that is stored in place of the value.
    pub(crate) fn list(&self) -> Vec<u8> {
        let mut list = Vec::with_capacity(8 + self.pieces.len() * size_of::<Name>());
        list.push(LIST);
        put(&mut list, self.value.len() as u64);
        self.pieces.iter().for_each(|(name, _)| list.extend_from_slice(name));
        list
    }

    /// Prepares the pieces that will have to be stored, as far as that is known before the transaction begins: while
    /// it is open, nobody else can write.
    pub(crate) async fn prepare(
        mut self,
        db: &impl ConnectionTrait,
        key: &SessionKey,
    ) -> Result<Self, DbErr> {
        // With a reading connection: what is missing is determined again in the transaction, where it counts.
        let missing = self.missing(db, key).await?;
        let (value, key) = (Arc::clone(&self.value), key.clone());
        let rows =
            move || missing.into_iter().map(|(name, range)| (name, row(&key, name, &value[range]))).collect();
        // Compressing a large value takes long, and the async worker threads are shared.
        // If it fails, `store` prepares the rows itself.
        self.ready = tokio::task::spawn_blocking(rows).await.unwrap_or_default();
        Ok(self)
    }

    /// Stores the missing pieces. The session must be locked by [`lock`] or by a change of its row in the same
    /// transaction; otherwise a sweep might remove a piece again.
    pub(crate) async fn store(&self, db: &DatabaseTransaction, key: &SessionKey) -> Result<(), DbErr> {
        let missing: Vec<_> = self.missing(db, key).await?.into_iter().collect();
        for some in missing.chunks(PIECES_AT_ONCE_MAX) {
            let rows = some.iter().map(|(name, range)| {
                let ready = self.ready.get(name).cloned();
                ready.unwrap_or_else(|| row(key, *name, &self.value[range.clone()])).into_active_model()
            });
            Entity::insert_many(rows).exec_without_returning(db).await?;
        }
        Ok(())
    }

    async fn missing(
        &self,
        db: &impl ConnectionTrait,
        key: &SessionKey,
    ) -> Result<HashMap<Name, Range<usize>>, DbErr> {
        let mut missing: HashMap<Name, Range<usize>> = self.pieces.iter().cloned().collect();
        let names: Vec<Name> = missing.keys().copied().collect();
        for some in names.chunks(ROWS_AT_ONCE_MAX) {
            let there = of(key).filter(Column::Name.is_in(some.iter().map(|name| name.to_vec())));
            let there: Vec<Vec<u8>> = there.select_only().column(Column::Name).into_tuple().all(db).await?;
            for name in there {
                if let Ok(name) = Name::try_from(name) {
                    missing.remove(&name);
                }
            }
        }
        Ok(missing)
    }
}

/// The value that a list refers to.
///
/// # Errors
/// The inner error is `Garbled` when the list is damaged or a piece is missing.
pub(crate) async fn whole(
    db: &impl ConnectionTrait,
    key: &SessionKey,
    list: &[u8],
) -> Result<Result<Vec<u8>>, DbErr> {
    let Ok((length, names)) = read(list) else { return Ok(Err(damaged())) };
    // A piece that occurs several times in the value is read once.
    let wanted: HashSet<Name> = names.iter().copied().collect();
    let wanted: Vec<Vec<u8>> = wanted.into_iter().map(|name| name.to_vec()).collect();
    let mut found: HashMap<Vec<u8>, Vec<u8>> = HashMap::with_capacity(wanted.len());
    for some in wanted.chunks(ROWS_AT_ONCE_MAX) {
        let rows = of(key).filter(Column::Name.is_in(some.iter().cloned())).all(db).await?;
        found.extend(rows.into_iter().map(|row| (row.name, row.body)));
    }
    let mut value = Vec::new();
    for name in names {
        match found.get(name.as_slice()).map(|body| plain(body)) {
            Some(Ok(piece)) => value.extend_from_slice(&piece),
            Some(Err(error)) => return Ok(Err(error)),
            None => return Ok(Err(damaged())),
        }
    }
    Ok(if value.len() == length { Ok(value) } else { Err(damaged()) })
}

/// Reads one piece.
///
/// # Errors
/// The inner error is `Garbled` when it is missing or damaged.
pub(crate) async fn one(
    db: &impl ConnectionTrait,
    key: &SessionKey,
    name: Name,
) -> Result<Result<Vec<u8>>, DbErr> {
    let found = of(key).filter(Column::Name.eq(name.to_vec())).one(db).await?;
    Ok(found.ok_or_else(damaged).and_then(|row| plain(&row.body)))
}

/// Stores a piece unless it exists already.
pub(crate) fn keep(batch: &mut Batch, row: &Model) {
    let key = [Column::TenantId, Column::SessionId, Column::Name];
    // Its name is the hash of its content, so what is there is the same.
    let there = OnConflict::columns(key).do_nothing_on(key).to_owned();
    batch.then(&Entity::insert(row.clone().into_active_model()).on_conflict(there));
}

/// Locks a session until the end of the transaction. Returns whether it exists. In SQLite, a write transaction is
/// already a lock.
pub(crate) async fn lock(db: &DatabaseTransaction, key: &SessionKey) -> Result<bool, DbErr> {
    let found: Option<i64> = locked(key).into_tuple().one(db).await?;
    Ok(found.is_some())
}

/// The query that locks a session.
pub(crate) fn locked(key: &SessionKey) -> Select<session::Entity> {
    let session = session::Entity::find().select_only().column(session::Column::Revision);
    session.filter(session::of(key)).lock_exclusive()
}

/// Removes the pieces of a session that are not referenced by any of these lists.
pub(crate) async fn sweep(
    db: &DatabaseTransaction,
    key: &SessionKey,
    lists: &[Vec<u8>],
) -> Result<u64, DbErr> {
    let mut used: HashSet<Name> = HashSet::new();
    for list in lists {
        // An unreadable list may refer to any piece: then nothing is removed.
        match session_dictionary::named(list) {
            Some(name) => drop(used.insert(name)),
            None => match read(list) {
                Ok((_, names)) => used.extend(names),
                Err(_) => return Ok(0),
            },
        }
    }
    let stored: Vec<Vec<u8>> = of(key).select_only().column(Column::Name).into_tuple().all(db).await?;
    let unused: Vec<_> = stored
        .into_iter()
        .filter(|name| !<Name>::try_from(name.as_slice()).is_ok_and(|name| used.contains(&name)))
        .collect();
    let mut removed = 0;
    for some in unused.chunks(ROWS_AT_ONCE_MAX) {
        let some = Entity::delete_many()
            .filter(Column::TenantId.eq(text(key.tenant.as_str())))
            .filter(Column::SessionId.eq(text(key.id.as_str())))
            .filter(Column::Name.is_in(some.iter().cloned()));
        removed += some.exec(db).await?.rows_affected;
    }
    Ok(removed)
}

fn of(key: &SessionKey) -> Select<Entity> {
    Entity::find()
        .filter(Column::TenantId.eq(text(key.tenant.as_str())))
        .filter(Column::SessionId.eq(text(key.id.as_str())))
}

pub(crate) fn name(piece: &[u8]) -> Name {
    let mut name = Name::default();
    name.copy_from_slice(&blake3::hash(piece).as_bytes()[..size_of::<Name>()]);
    name
}

pub(crate) fn row(key: &SessionKey, name: Name, piece: &[u8]) -> Model {
    let body = match compress(piece) {
        Some(compressed) => {
            let mut body = vec![COMPRESSED];
            put(&mut body, piece.len() as u64);
            [body, compressed].concat()
        }
        None => [&[PLAIN], piece].concat(),
    };
    Model {
        tenant_id: text(key.tenant.as_str()),
        session_id: text(key.id.as_str()),
        name: name.to_vec(),
        body,
    }
}

fn plain(body: &[u8]) -> Result<Vec<u8>> {
    match body.split_first() {
        Some((&PLAIN, piece)) => Ok(piece.to_vec()),
        Some((&COMPRESSED, mut rest)) => {
            let length = usize::try_from(take(&mut rest)?).map_err(|_| damaged())?;
            decompress(rest, length)
        }
        _ => Err(damaged()),
    }
}

fn read(list: &[u8]) -> Result<(usize, Vec<Name>)> {
    let Some((&LIST, mut rest)) = list.split_first() else { return Err(damaged()) };
    let length = usize::try_from(take(&mut rest)?).map_err(|_| damaged())?;
    let names = rest.chunks(size_of::<Name>()).map(|name| name.try_into().map_err(|_| damaged()));
    Ok((length, names.collect::<Result<_>>()?))
}

fn damaged() -> Error {
    Error::new(ErrorKind::Garbled, "a piece of a stored value is missing or damaged")
        .help("restore the store from a backup; other sessions are not affected")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn an_insertion_changes_only_the_pieces_around_it() {
        let before = value(1, 1_000_000);
        let mut after = before.clone();
        after.splice(400_000..400_000, *b"a word that was not there");
        let (before, after) = (Cut::new(before), Cut::new(after));
        assert!(before.pieces.len() > 60, "{}", before.pieces.len());
        let known: HashSet<Name> = before.pieces.iter().map(|(name, _)| *name).collect();
        let new = after.pieces.iter().filter(|(name, _)| !known.contains(name)).count();
        assert!((1..=3).contains(&new), "{new} of {} pieces are new", after.pieces.len());
    }

    #[test]
    fn a_list_names_its_pieces_in_order() {
        let cut = Cut::new(value(2, 100_000));
        let (length, names) = read(&cut.list()).unwrap();
        assert_eq!(length, 100_000);
        assert!(names.iter().eq(cut.pieces.iter().map(|(name, _)| name)));
        assert_eq!(cut.pieces.iter().map(|(_, range)| range.len()).sum::<usize>(), length);
        assert!(read(&cut.list()[..40]).is_err() && read(&[]).is_err() && read(&[LIST]).is_err());
    }
}
