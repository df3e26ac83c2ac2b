//! What holds for the groups and the paragraphs of an RTF.

use encoding_rs::Encoding;

/// What the text of a group is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    Text,
    Skipped,
    Fonts,
    Styles,
    Info,
}

/// What a text is that stands elsewhere.
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

/// What holds for a group and those within it.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) destination: Destination,
    pub(super) encoding: &'static Encoding,
    /// How many letters behind one that is told by its number stand in its place for older programs.
    pub(super) in_place: usize,
    pub(super) is_hidden: bool,
}

pub(super) struct Group {
    pub(super) style: Style,
    /// What its text is, and the text around it.
    pub(super) captured: Option<(Capture, String)>,
    /// Where the text of a link begins.
    pub(super) link: Option<usize>,
}

/// What holds for a paragraph.
#[derive(Clone, Copy, Default)]
pub(super) struct Paragraph {
    pub(super) is_cell: bool,
    pub(super) style: i32,
    pub(super) level: Option<u8>,
    pub(super) depth: u8,
}
