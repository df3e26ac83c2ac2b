//! What people attach to the versions of canvases: names, notes, labels, and which one is published.

use std::sync::Arc;

use weft_macros::async_trait;

use crate::error::{Error, Result};
use crate::id::{CanvasKey, TenantId};

/// Maximum length of a label, in characters.
pub const LABEL_CHARS_MAX: usize = 64;
/// Maximum number of labels of a canvas.
pub const LABELS_MAX: usize = 50;
/// Maximum length of a tag, in characters.
pub const TAG_CHARS_MAX: usize = 50;
/// Maximum number of tags of a canvas.
pub const TAGS_MAX: usize = 30;
/// Words with a meaning of their own as version names; labels cannot use them.
pub const RESERVED: [&str; 3] = ["published", "latest", "draft"];

/// A version, without its canvas document.
#[derive(Clone, Debug, PartialEq)]
pub struct CanvasVersion {
    /// The hash that names it.
    pub version: Arc<str>,
    /// Its title; may be empty.
    pub title: String,
    /// A note about it; may be empty.
    pub note: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last saved, in milliseconds since 1970.
    pub updated_ms: i64,
    /// When it was published, if it is.
    pub published_ms: Option<i64>,
    /// The labels that point to it, sorted by name.
    pub labels: Vec<String>,
}

/// Changes to the description of a version; absent values stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VersionChange {
    /// Its title.
    pub title: Option<String>,
    /// A note about it.
    pub note: Option<String>,
}

/// Stores information about the versions of canvases other than their documents, which are in
/// [`CanvasStore`](super::CanvasStore). It is deleted with the canvas.
#[async_trait]
pub trait VersionStore: Send + Sync {
    /// Returns the versions of a canvas, most recently saved first, and their total number.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn versions(
        &self,
        canvas: &CanvasKey,
        offset: u64,
        limit: u64,
    ) -> Result<(Vec<CanvasVersion>, u64)>;

    /// Returns a version by its hash.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get_version(&self, canvas: &CanvasKey, version: &str) -> Result<CanvasVersion>;

    /// Changes the description of a version.
    ///
    /// # Errors
    /// `NotFound`.
    async fn describe(
        &self,
        canvas: &CanvasKey,
        version: &str,
        change: &VersionChange,
    ) -> Result<CanvasVersion>;

    /// Publishes a version of a canvas.
    ///
    /// # Errors
    /// `NotFound`.
    async fn publish(&self, canvas: &CanvasKey, version: &str) -> Result<()>;

    /// Unpublishes a version. If another version is published by then, that one stays so.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn unpublish(&self, canvas: &CanvasKey, version: &str) -> Result<()>;

    /// Returns the published version of a canvas, if there is one.
    ///
    /// # Errors
    /// `NotFound` for an unknown canvas.
    async fn published(&self, canvas: &CanvasKey) -> Result<Option<Arc<str>>>;

    /// Points a label to a version, whatever it pointed to before; without a version, removes it.
    ///
    /// # Errors
    /// `NotFound` when there is no such version, or no such label to remove; `Invalid` if there would be more than
    /// [`LABELS_MAX`] labels.
    async fn label(&self, canvas: &CanvasKey, label: &str, version: Option<&str>) -> Result<()>;

    /// Returns the version that a label points to.
    ///
    /// # Errors
    /// `NotFound`.
    async fn labelled(&self, canvas: &CanvasKey, label: &str) -> Result<Arc<str>>;

    /// Returns the canvas that has a version; if several have the same document, the one that saved it last.
    ///
    /// # Errors
    /// `NotFound`.
    async fn canvas_of(&self, tenant: &TenantId, version: &str) -> Result<CanvasKey>;

    /// Removes versions of a tenant's assistants that were last saved before a time, except the newest of each and
    /// those that a run may have used: one that began while the version was in use, or up to a day before or after.
    /// Returns how many. A store may keep them all.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    async fn remove_unused_versions(&self, _tenant: &TenantId, _saved_before_ms: i64) -> Result<u64> {
        Ok(0)
    }

    /// Replaces the tags of a canvas.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` as [`checked_tags`].
    async fn set_tags(&self, canvas: &CanvasKey, tags: &[String]) -> Result<()>;

    /// Returns every tag used by the canvases of a tenant, each once, sorted by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tags(&self, tenant: &TenantId) -> Result<Vec<String>>;
}

/// Normalises tags for storage: trimmed, without empty tags and duplicates, ignoring case.
///
/// # Errors
/// `Invalid` for too many tags, and for a tag that is too long or not a single line without commas.
pub fn checked_tags(tags: impl IntoIterator<Item = String>) -> Result<Vec<String>> {
    let mut checked: Vec<String> = Vec::new();
    for tag in tags {
        let tag = tag.trim();
        if tag.is_empty() || checked.iter().any(|known| known.to_lowercase() == tag.to_lowercase()) {
            continue;
        }
        if tag.chars().count() > TAG_CHARS_MAX || tag.chars().any(|c| c == ',' || c.is_control()) {
            return Err(Error::invalid("a tag is one line without commas")
                .help(format!("use at most {TAG_CHARS_MAX} characters")));
        }
        // Checked here because every tag is compared with those before it, and a caller may send any number.
        if checked.len() == TAGS_MAX {
            return Err(Error::invalid(format!("a canvas has at most {TAGS_MAX} tags")));
        }
        checked.push(tag.to_owned());
    }
    Ok(checked)
}

/// Checks whether a text may be a label.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_label(label: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    // Versions are named by hashes of this form: a label that looks like one could shadow another version.
    let hash = label.len() == 64 && label.bytes().all(|byte| byte.is_ascii_hexdigit());
    if label.is_empty() || label.len() > LABEL_CHARS_MAX || !label.chars().all(fits) || hash {
        return Err(Error::invalid("this is not a valid label")
            .help(format!("use at most {LABEL_CHARS_MAX} letters, digits, `_`, `-` and `.`")));
    }
    if RESERVED.contains(&label.to_ascii_lowercase().as_str()) {
        return Err(Error::invalid(format!("`{label}` is reserved as the name of a version"))
            .help("choose another word, such as `production`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_single_lines_and_unique() {
        let tags = |tags: &[&str]| checked_tags(tags.iter().map(|tag| (*tag).to_owned()));
        assert_eq!(tags(&[" Sales ", "", "sales", "Ünï"]).unwrap(), ["Sales", "Ünï"]);
        tags(&["a,b"]).unwrap_err();
        tags(&["a\nb"]).unwrap_err();
        tags(&[&"x".repeat(51)]).unwrap_err();
        assert_eq!(checked_tags((0..30).map(|n| n.to_string())).unwrap().len(), 30);
        let mut read = 0;
        checked_tags((0..1_000).inspect(|_| read += 1).map(|n| n.to_string())).unwrap_err();
        assert_eq!(read, 31, "the rest is not read");
    }

    #[test]
    fn labels_are_words_not_reserved_otherwise() {
        for label in ["production", "v1.2", "A_b-3"] {
            check_label(label).unwrap();
        }
        for label in ["", "a b", "a/b", "Published", "latest", &"a".repeat(65), &"0f".repeat(32)] {
            check_label(label).unwrap_err();
        }
    }
}
