//! Names of things. Every id is its own type, and a key that reaches a store always carries the
//! tenant, so a query that forgets it does not compile.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is; ids are opaque.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )+};
}

ids! {
    /// Whose data it is. Part of every storage key.
    TenantId,
    /// Somebody who may sign in.
    UserId,
    /// A file of a conversation.
    FileId,
    /// A stored canvas.
    CanvasId,
    /// One conversation with one canvas.
    SessionId,
    /// One execution inside a session; also the `message_id` and `task_id` clients see.
    RunId,
    /// One node of a canvas, such as `begin` or `Agent:NewPumasLick`.
    ComponentId,
    /// When and with what a canvas runs by itself.
    ScheduleId,
    /// A memory of agents.
    MemoryId,
    /// One thing that a person is asked to do.
    TaskId,
    /// One life of a program that works on the runs of a store.
    ProcessId,
    /// A collection of documents to search.
    DatasetId,
    /// One document of a dataset.
    DocumentId,
    /// A passage of a document, as it is searched and cited. Unique in all datasets.
    ChunkId,
}

impl RunId {
    /// A new id: 32 lower-case hex characters in the shape of a version-1 UUID, which is what
    /// strict clients of the compatible API accept.
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl UserId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl ProcessId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl SessionId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl CanvasId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl ScheduleId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl MemoryId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl DatasetId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl DocumentId {
    /// A new id in the same shape as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

/// 32 lower-case hex characters, a version-1 UUID: strict clients take no other, and what was made in one
/// millisecond is listed in the order in which it was made. All but its time is chance, 61 bits, so that nobody
/// guesses the id of another. Still it is a name and no secret: it grants nothing to who knows it.
pub fn generate() -> String {
    let chance = *uuid::Uuid::new_v4().as_bytes();
    let mut bytes = *uuid::Uuid::now_v1(&[0; 6]).as_bytes();
    // Sequence and node. Of the chance, byte 8 holds the variant of a UUID, which is the same in all versions.
    bytes[8] = chance[8];
    bytes[9] = chance[0];
    bytes[10..].copy_from_slice(&chance[10..]);
    // RFC 9562 §6.10: a node id that is no hardware address has its multicast bit set.
    bytes[10] |= 1;
    uuid::Uuid::from_bytes(bytes).simple().to_string()
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident($id:ty)),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            /// Whose it is.
            pub tenant: TenantId,
            /// Which one.
            pub id: $id,
        }

        impl $name {
            /// Both halves of the key.
            pub fn new(tenant: &TenantId, id: impl Into<$id>) -> Self {
                Self { tenant: tenant.clone(), id: id.into() }
            }
        }
    )+};
}

keys! {
    /// Where a canvas is stored.
    CanvasKey(CanvasId),
    /// Where a session is stored.
    SessionKey(SessionId),
    /// Where a run and its journal are stored.
    RunKey(RunId),
    /// Where a schedule is stored.
    ScheduleKey(ScheduleId),
    /// Where a memory is stored.
    MemoryKey(MemoryId),
    /// Where a human task is stored.
    TaskKey(TaskId),
    /// Where a dataset is stored.
    DatasetKey(DatasetId),
}

/// Where a document is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DocumentKey {
    /// The dataset that it is part of.
    pub dataset: DatasetKey,
    /// Which one.
    pub id: DocumentId,
}

impl DocumentKey {
    /// Both halves of the key.
    pub fn new(dataset: &DatasetKey, id: impl Into<DocumentId>) -> Self {
        Self { dataset: dataset.clone(), id: id.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_version_one_and_distinct() {
        let (a, b) = (generate(), generate());
        assert_eq!(a.len(), 32);
        assert_eq!(uuid::Uuid::parse_str(&a).unwrap().get_version_num(), 1);
        assert_ne!(a, b);
    }

    #[test]
    fn who_knows_an_id_and_its_time_does_not_know_the_next() {
        let ids: Vec<u128> = (0..200).map(|_| u128::from_str_radix(&generate(), 16).unwrap()).collect();
        assert!(ids.iter().all(|id| uuid::Uuid::from_u128(*id).get_variant() == uuid::Variant::RFC4122));
        // Of the last 64 bits only the variant and the multicast bit are the same in all.
        let (all, any) = ids.iter().fold((u64::MAX, 0), |(all, any), id| {
            let half = u64::try_from(id & u128::from(u64::MAX)).unwrap();
            (all & half, any | half)
        });
        assert_eq!((all ^ any).count_ones(), 61, "{all:x} {any:x}");
    }
}
