//! Identifiers. Every id has its own type, and a key that reaches a store always contains the tenant, so a query that
//! omits it does not compile.

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
    /// The owner of data. Part of every storage key.
    TenantId,
    /// A user who may sign in.
    UserId,
    /// A file of a conversation.
    FileId,
    /// A stored canvas.
    CanvasId,
    /// One conversation with one canvas.
    SessionId,
    /// One execution within a session; also the `message_id` and `task_id` that clients see.
    RunId,
    /// One node of a canvas, such as `begin` or `Agent:NewPumasLick`.
    ComponentId,
    /// A schedule: when a canvas runs by itself, and with which input.
    ScheduleId,
    /// A memory of agents.
    MemoryId,
    /// One task that a person is asked to do.
    TaskId,
    /// One lifetime of a process that works on the runs of a store.
    ProcessId,
    /// A collection of documents to search.
    DatasetId,
    /// One document of a dataset.
    DocumentId,
    /// A passage of a document as it is searched and cited. Unique across all datasets.
    ChunkId,
}

impl RunId {
    /// Generates an id: 32 lower-case hexadecimal digits in the format of a version-1 UUID, the only one that strict
    /// clients of the compatible API accept.
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl UserId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl ProcessId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl SessionId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl CanvasId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl ScheduleId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl MemoryId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl DatasetId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

impl DocumentId {
    /// Generates an id in the same format as [`RunId::generate`].
    pub fn generate() -> Self {
        Self::new(generate())
    }
}

/// Generates an id: 32 lower-case hexadecimal digits, a version-1 UUID. Strict clients accept no other format, and
/// ids generated within one millisecond sort in the order of their generation. Everything but the time, 61 bits, is
/// random, so that ids cannot be guessed. Still, an id is a name and not a secret: knowing it grants nothing.
pub fn generate() -> String {
    let chance = *uuid::Uuid::new_v4().as_bytes();
    let mut bytes = *uuid::Uuid::now_v1(&[0; 6]).as_bytes();
    // The sequence and node fields. Byte 8 of the random UUID contains the variant, which is the same in all
    // versions.
    bytes[8] = chance[8];
    bytes[9] = chance[0];
    bytes[10..].copy_from_slice(&chance[10..]);
    // RFC 9562 §6.10: a node id that is not a hardware address has its multicast bit set.
    bytes[10] |= 1;
    uuid::Uuid::from_bytes(bytes).simple().to_string()
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident($id:ty)),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            /// The tenant that owns it.
            pub tenant: TenantId,
            /// Its id.
            pub id: $id,
        }

        impl $name {
            /// Creates a key from its two parts.
            pub fn new(tenant: &TenantId, id: impl Into<$id>) -> Self {
                Self { tenant: tenant.clone(), id: id.into() }
            }
        }
    )+};
}

keys! {
    /// Storage key of a canvas.
    CanvasKey(CanvasId),
    /// Storage key of a session.
    SessionKey(SessionId),
    /// Storage key of a run and its journal.
    RunKey(RunId),
    /// Storage key of a schedule.
    ScheduleKey(ScheduleId),
    /// Storage key of a memory.
    MemoryKey(MemoryId),
    /// Storage key of a human task.
    TaskKey(TaskId),
    /// Storage key of a dataset.
    DatasetKey(DatasetId),
}

/// Storage key of a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DocumentKey {
    /// The dataset it belongs to.
    pub dataset: DatasetKey,
    /// Its id within the dataset.
    pub id: DocumentId,
}

impl DocumentKey {
    /// Creates a key from its two parts.
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
    fn an_id_and_its_time_do_not_predict_the_next() {
        let ids: Vec<u128> = (0..200).map(|_| u128::from_str_radix(&generate(), 16).unwrap()).collect();
        assert!(ids.iter().all(|id| uuid::Uuid::from_u128(*id).get_variant() == uuid::Variant::RFC4122));
        // Of the last 64 bits only the variant and the multicast bit are constant.
        let (all, any) = ids.iter().fold((u64::MAX, 0), |(all, any), id| {
            let half = u64::try_from(id & u128::from(u64::MAX)).unwrap();
            (all & half, any | half)
        });
        assert_eq!((all ^ any).count_ones(), 61, "{all:x} {any:x}");
    }
}
