//! Limits for all documents of a tenant combined.

use crate::error::{Error, ErrorKind, Result};

/// Limits for all documents of a tenant across its datasets; 0 means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentQuota {
    /// Documents.
    pub documents: u64,
    /// Size of the original documents, and of the pictures stored with them, in bytes.
    pub bytes: u64,
}

impl DocumentQuota {
    /// Returns whether there are no limits to check.
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Checks whether another document of `size` bytes fits in addition to `documents` that take `bytes`.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn check(self, (documents, bytes): (u64, u64), size: u64) -> Result<()> {
        let (message, setting) = if self.documents > 0 && documents >= self.documents {
            (
                format!("there are {documents} documents already, which is the maximum"),
                "limits.tenant_documents",
            )
        } else if self.bytes > 0 && bytes.saturating_add(size) > self.bytes {
            let most = self.bytes;
            let message = format!("the documents take {bytes} bytes of at most {most}; this one has {size}");
            (message, "limits.tenant_document_bytes")
        } else {
            return Ok(());
        };
        let help = format!("remove some, or let an operator raise {setting}");
        Err(Error::new(ErrorKind::QuotaExceeded, message).help(help))
    }
}
