//! MSG: mails as Outlook keeps them, a tree of numbered properties.

use std::io::{Cursor, Read as _};

use cfb::CompoundFile;
use weft_core::seam::document_reader::FoundPictures;

use super::mail::ParsedMail;
use super::{FileContents, FileFormat, FileInput, ReadResult, Unreadable, html};
use crate::archive::ArchiveKind;
use crate::parts::PartCollector;
use crate::words::decode;

/// Mails of Outlook.
pub const FORMAT: FileFormat = FileFormat {
    name: "MSG",
    endings: &["msg"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Outlook),
    read,
};

/// Bytes of one property, at most.
const PROPERTY_BYTES_MAX: u64 = 64 << 20;
/// Attachments that are looked for, at most.
const ATTACHMENTS_MAX: usize = 1_000;

/// Numbers of properties.
mod property {
    pub const SUBJECT: &str = "0037";
    pub const SENDER_NAME: &str = "0C1A";
    pub const SENDER_ADDRESS: [&str; 2] = ["5D01", "0C1F"];
    pub const TO: &str = "0E04";
    pub const CC: &str = "0E03";
    pub const BODY: &str = "1000";
    pub const HTML: &str = "1013";
    pub const COMPRESSED_BODY: &str = "1009";
    pub const DATA: &str = "3701";
    pub const NAMES: [&str; 3] = ["3707", "3704", "3001"];
    /// Sent, delivered, created: times are kept apart from the rest.
    pub const TIMES: [u16; 3] = [0x0039, 0x0E06, 0x3007];
}

/// The property is text in UTF-16, text in some code page, or bytes.
const KINDS: [&str; 3] = ["001F", "001E", "0102"];

struct OutlookMessage<'a>(CompoundFile<Cursor<&'a [u8]>>);

impl OutlookMessage<'_> {
    fn bytes(&mut self, path: &str) -> Option<Vec<u8>> {
        if !self.0.is_stream(path) {
            return None;
        }
        let mut bytes = Vec::new();
        self.0.open_stream(path).ok()?.take(PROPERTY_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// A property of the mail, or of the attachment in this folder.
    fn text(&mut self, folder: &str, number: &str) -> String {
        for kind in KINDS {
            let Some(bytes) = self.bytes(&format!("{folder}/__substg1.0_{number}{kind}")) else { continue };
            let text = if kind == "001F" {
                encoding_rs::UTF_16LE.decode_without_bom_handling(&bytes).0.into_owned()
            } else if number == property::HTML {
                html::written(&bytes)
            } else {
                decode(&bytes)
            };
            return text.trim_end_matches('\0').to_owned();
        }
        String::new()
    }

    /// When the mail was sent. Times are numbers of ten millionths of a second since 1601.
    fn date(&mut self) -> Option<String> {
        let bytes = self.bytes("/__properties_version1.0")?;
        // A header of 32 bytes, then 16 for each property: kind, number, flags, value.
        let entries: Vec<&[u8]> = bytes.get(32..)?.chunks_exact(16).collect();
        property::TIMES.into_iter().find_map(|wanted| {
            let entry = entries.iter().find(|entry| {
                u16::from_le_bytes([entry[2], entry[3]]) == wanted
                    && u16::from_le_bytes([entry[0], entry[1]]) == 0x0040
            })?;
            let ticks = u64::from_le_bytes(entry[8..16].try_into().ok()?);
            iso(ticks / 10_000_000)
        })
    }
}

/// A time in seconds since 1601 as text.
fn iso(seconds: u64) -> Option<String> {
    let (days, rest) = (i64::try_from(seconds / 86_400).ok()?, seconds % 86_400);
    // From the first of March of the year 0 on, leap days come last in their years.
    let days = days + 584_694;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    (year < 10_000).then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

fn read(file: &FileInput<'_>) -> ReadResult {
    let mut parts = PartCollector::with_pictures(file.readings);
    opened(file, &mut parts)?.add(file, &mut parts);
    Ok(parts.finish())
}

/// The pictures of a mail.
pub(crate) fn pictures(file: &FileInput<'_>) -> Result<FoundPictures, Unreadable> {
    // What is missing of it is said when it is read.
    Ok(opened(file, &mut PartCollector::default())?.pictures(file))
}

fn opened(file: &FileInput<'_>, parts: &mut PartCollector) -> Result<ParsedMail, Unreadable> {
    let open = CompoundFile::open(Cursor::new(file.bytes));
    let mut message =
        OutlookMessage(open.map_err(|cause| Unreadable::because("its list of parts is broken", cause))?);
    let mut mail = ParsedMail { subject: message.text("", property::SUBJECT), ..ParsedMail::default() };
    let name = message.text("", property::SENDER_NAME);
    let addresses = property::SENDER_ADDRESS.map(|number| message.text("", number));
    // Addresses within a company are paths that say nothing.
    let address = addresses.into_iter().find(|one| one.contains('@')).unwrap_or_default();
    let from =
        if address.is_empty() || name.contains(&address) { name } else { format!("{name} <{address}>") };
    mail.header("From", from);
    mail.header("To", message.text("", property::TO));
    mail.header("Cc", message.text("", property::CC));
    mail.header("Date", message.date().unwrap_or_default());
    mail.text = message.text("", property::BODY);
    if mail.text.trim().is_empty() {
        // The same text once more, where there is the other.
        mail.html = message.text("", property::HTML);
    }
    if mail.text.trim().is_empty()
        && mail.html.trim().is_empty()
        && !message.text("", property::COMPRESSED_BODY).is_empty()
    {
        parts.warn("the text of the mail is kept in the Rich Text Format only and was left out");
    }
    let folders: Vec<String> = message
        .0
        .read_root_storage()
        .filter(|entry| entry.is_storage() && entry.name().starts_with("__attach_version1.0"))
        .map(|entry| format!("/{}", entry.name()))
        .take(ATTACHMENTS_MAX)
        .collect();
    for folder in folders {
        let names = property::NAMES.map(|number| message.text(&folder, number));
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "attachment".to_owned());
        match message.bytes(&format!("{folder}/__substg1.0_{}0102", property::DATA)) {
            Some(bytes) => mail.attachments.push((name, bytes)),
            None => parts.warn(format!("the attachment `{name}` is not a file and was left out")),
        }
    }
    Ok(mail)
}

#[cfg(test)]
mod tests {
    use super::iso;

    #[test]
    fn times_begin_in_1601() {
        assert_eq!(iso(0).as_deref(), Some("1601-01-01T00:00:00Z"));
        assert_eq!(iso(11_644_473_600).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(iso(11_644_473_600 + 951_827_696).as_deref(), Some("2000-02-29T12:34:56Z"));
        assert_eq!(iso(u64::MAX), None);
    }
}
