//! What people say about the versions of canvases: names, notes, labels, and which is published.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::id::{CanvasKey, TenantId};

/// Characters of a label, at most.
pub const LABEL_CHARS_MAX: usize = 64;
/// Labels of a canvas, at most.
pub const LABELS_MAX: usize = 50;
/// Characters of a tag, at most.
pub const TAG_CHARS_MAX: usize = 50;
/// Tags of a canvas, at most.
pub const TAGS_MAX: usize = 30;
/// Words that name a version by themselves, so no label may be one of them.
pub const RESERVED: [&str; 3] = ["published", "latest", "draft"];

/// A version without its drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct CanvasVersion {
    /// The hash that names it.
    pub version: Arc<str>,
    /// What people call it; may be empty.
    pub title: String,
    /// What there is to say about it; may be empty.
    pub note: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// When it was saved last.
    pub updated_ms: i64,
    /// When it was published, if it was.
    pub published_ms: Option<i64>,
    /// The labels that point to it, by name.
    pub labels: Vec<String>,
}

/// What is to be said about a version; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VersionChange {
    /// What people call it.
    pub title: Option<String>,
    /// What there is to say about it.
    pub note: Option<String>,
}

/// What is known of the versions of canvases besides their drawings, which are with [`CanvasStore`](super::CanvasStore).
/// It goes with the canvas.
#[async_trait]
pub trait VersionStore: Send + Sync {
    /// The versions of a canvas, those first that were saved last, and how many there are in all.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn versions(
        &self,
        canvas: &CanvasKey,
        offset: u64,
        limit: u64,
    ) -> Result<(Vec<CanvasVersion>, u64)>;

    /// One version by its hash.
    ///
    /// # Errors
    /// `NotFound`.
    async fn get_version(&self, canvas: &CanvasKey, version: &str) -> Result<CanvasVersion>;

    /// Says something about a version.
    ///
    /// # Errors
    /// `NotFound`.
    async fn describe(
        &self,
        canvas: &CanvasKey,
        version: &str,
        change: &VersionChange,
    ) -> Result<CanvasVersion>;

    /// Makes a version the published one of its canvas.
    ///
    /// # Errors
    /// `NotFound`.
    async fn publish(&self, canvas: &CanvasKey, version: &str) -> Result<()>;

    /// Takes back that a version is published. Whichever else is published by then stays so.
    ///
    /// # Errors
    /// When the store cannot be written.
    async fn unpublish(&self, canvas: &CanvasKey, version: &str) -> Result<()>;

    /// The published version of a canvas, if there is one.
    ///
    /// # Errors
    /// `NotFound` for an unknown canvas.
    async fn published(&self, canvas: &CanvasKey) -> Result<Option<Arc<str>>>;

    /// Lets a label point to a version, whatever it pointed to before; with none, takes it away.
    ///
    /// # Errors
    /// `NotFound` when there is no such version, or no such label to be taken away; `Invalid` for one label more than
    /// [`LABELS_MAX`].
    async fn label(&self, canvas: &CanvasKey, label: &str, version: Option<&str>) -> Result<()>;

    /// The version that a label points to.
    ///
    /// # Errors
    /// `NotFound`.
    async fn labelled(&self, canvas: &CanvasKey, label: &str) -> Result<Arc<str>>;

    /// The canvas that has a version; of several that have the same drawing, the one that saved it last.
    ///
    /// # Errors
    /// `NotFound`.
    async fn canvas_of(&self, tenant: &TenantId, version: &str) -> Result<CanvasKey>;

    /// Gives a canvas these tags in place of those that it has.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` as [`checked_tags`].
    async fn set_tags(&self, canvas: &CanvasKey, tags: &[String]) -> Result<()>;

    /// Every tag that canvases of a tenant have, each once, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn tags(&self, tenant: &TenantId) -> Result<Vec<String>>;
}

/// Tags as they are stored: trimmed, none empty and none twice, whatever their case.
///
/// # Errors
/// `Invalid` for too many of them, and for one that is too long or is no single line without commas.
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
        // At the first that is too many: each is compared with those before it, and a caller may send any number.
        if checked.len() == TAGS_MAX {
            return Err(Error::invalid(format!("a canvas has at most {TAGS_MAX} tags")));
        }
        checked.push(tag.to_owned());
    }
    Ok(checked)
}

/// Whether a text may be a label.
///
/// # Errors
/// `Invalid`, with the reason.
pub fn check_label(label: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    // A version is named by a hash of this form: a label that looks like one would stand for another version.
    let hash = label.len() == 64 && label.bytes().all(|byte| byte.is_ascii_hexdigit());
    if label.is_empty() || label.len() > LABEL_CHARS_MAX || !label.chars().all(fits) || hash {
        return Err(Error::invalid("this cannot be a label")
            .help(format!("use at most {LABEL_CHARS_MAX} letters, digits, `_`, `-` and `.`")));
    }
    if RESERVED.contains(&label.to_ascii_lowercase().as_str()) {
        return Err(Error::invalid(format!("`{label}` names a version by itself"))
            .help("choose another word, such as `production`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_lines_and_each_is_there_once() {
        let tags = |tags: &[&str]| checked_tags(tags.iter().map(|tag| (*tag).to_owned()));
        assert_eq!(tags(&[" Sales ", "", "sales", "Ünï"]).unwrap(), ["Sales", "Ünï"]);
        tags(&["a,b"]).unwrap_err();
        tags(&["a\nb"]).unwrap_err();
        tags(&[&"x".repeat(51)]).unwrap_err();
        assert_eq!(checked_tags((0..30).map(|n| n.to_string())).unwrap().len(), 30);
        let mut read = 0;
        checked_tags((0..1_000).inspect(|_| read += 1).map(|n| n.to_string())).unwrap_err();
        assert_eq!(read, 31, "the rest is not looked at");
    }

    #[test]
    fn labels_are_words_that_name_nothing_else() {
        for label in ["production", "v1.2", "A_b-3"] {
            check_label(label).unwrap();
        }
        for label in ["", "a b", "a/b", "Published", "latest", &"a".repeat(65), &"0f".repeat(32)] {
            check_label(label).unwrap_err();
        }
    }
}
