//! Properties of groups and paragraphs.

use encoding_rs::Encoding;

/// What happens to the text of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    Text,
    Skipped,
    Fonts,
    Styles,
    Info,
}

/// Purpose of a text that is collected separately.
#[derive(Clone, Copy)]
pub(super) enum Capture {
    Title,
    Author,
    Instruction,
    Marker,
    Remarker,
    Style,
    Note,
    Remark,
}

/// Properties that a group passes on to the groups in it.
#[derive(Clone, Copy)]
pub(super) struct GroupStyle {
    pub(super) destination: Destination,
    pub(super) encoding: &'static Encoding,
    /// Number of characters after a Unicode character that represent it for older programs, and are skipped.
    pub(super) in_place: usize,
    pub(super) is_hidden: bool,
}

pub(super) struct RtfGroup {
    pub(super) style: GroupStyle,
    /// The purpose of its text, if that is collected separately, and the text around it.
    pub(super) captured: Option<(Capture, String)>,
    /// Offset in the text where a link begins.
    pub(super) link: Option<usize>,
}

/// Properties of a paragraph.
#[derive(Clone, Copy, Default)]
pub(super) struct Paragraph {
    pub(super) is_cell: bool,
    pub(super) style: i32,
    pub(super) level: Option<u8>,
    pub(super) depth: u8,
}
