//! How much the documents of a tenant may be together.

use crate::error::{Error, ErrorKind, Result};

/// How much the documents of a tenant may be together, over all datasets; 0 stands for any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentQuota {
    /// Documents.
    pub documents: u64,
    /// Bytes of them as they were given, and of the pictures that are kept beside them.
    pub bytes: u64,
}

impl DocumentQuota {
    /// Whether there is nothing to be counted.
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Looks whether one more document of `size` bytes fits beside `documents` that take `bytes`.
    ///
    /// # Errors
    /// `QuotaExceeded`.
    pub fn check(self, (documents, bytes): (u64, u64), size: u64) -> Result<()> {
        let (message, setting) = if self.documents > 0 && documents >= self.documents {
            (format!("there are {documents} documents, as many as may be"), "limits.tenant_documents")
        } else if self.bytes > 0 && bytes.saturating_add(size) > self.bytes {
            let most = self.bytes;
            let message =
                format!("the documents take {bytes} bytes and may take {most}; this one has {size}");
            (message, "limits.tenant_document_bytes")
        } else {
            return Ok(());
        };
        let help = format!("remove some, or let an operator raise {setting}");
        Err(Error::new(ErrorKind::QuotaExceeded, message).help(help))
    }
}
