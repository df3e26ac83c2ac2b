//! MSG: mails stored by Outlook as a tree of numbered properties.

use std::io::{Cursor, Read as _};

use cfb::CompoundFile;
use weft_core::seam::document_reader::FoundPictures;

use super::mail::ParsedMail;
use super::{DEPTH_MAX, FileContents, FileFormat, FileInput, ReadResult, html, rtf};
use crate::archive::ArchiveKind;
use crate::parts::PartCollector;
use crate::unreadable::Unreadable;
use crate::words::decode;

/// Outlook messages.
pub(super) const FORMAT: FileFormat = FileFormat {
    name: "MSG",
    endings: &["msg"],
    is_binary: true,
    looks: |contents: &FileContents<'_>| contents.container == Some(ArchiveKind::Outlook),
    read,
};

/// Maximum size of one property, in bytes.
const PROPERTY_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of times that the size of the file may be read in total. Property lists are read again for each
/// property, but a file can also make many properties share the same data.
const READ_AGAIN_MAX: u64 = 8;
/// Maximum number of attachments, and of recipients.
const ATTACHMENTS_MAX: usize = 1_000;

/// Numbers of properties.
mod property {
    pub(super) const SUBJECT: &str = "0037";
    pub(super) const SENDER_NAME: &str = "0C1A";
    pub(super) const SENDER_ADDRESS: [&str; 4] = ["5D01", "5D02", "0C1F", "0065"];
    pub(super) const TO: &str = "0E04";
    pub(super) const CC: &str = "0E03";
    pub(super) const BODY: &str = "1000";
    pub(super) const HTML: &str = "1013";
    pub(super) const COMPRESSED_BODY: &str = "1009";
    pub(super) const DATA: &str = "3701";
    pub(super) const NAMES: [&str; 3] = ["3707", "3704", "3001"];
    /// Properties of a recipient.
    pub(super) const RECIPIENT_NAME: &str = "3001";
    pub(super) const RECIPIENT_ADDRESS: [&str; 2] = ["39FE", "3003"];
    /// Whether the recipient is a To, Cc or Bcc recipient.
    pub(super) const RECIPIENT_KIND: u16 = 0x0C15;
    /// Time sent, delivered and created. Times are stored separately from other properties.
    pub(super) const TIMES: [u16; 3] = [0x0039, 0x0E06, 0x3007];
}

/// Prefixes of the folders of attachments and of recipients.
const ATTACHMENT: &str = "__attach_version1.0";
const RECIPIENT: &str = "__recip_version1.0";
/// Types of a property: text in UTF-16, text in a code page, or bytes.
const KINDS: [&str; 3] = ["001F", "001E", "0102"];

struct OutlookMessage<'a> {
    file: CompoundFile<Cursor<&'a [u8]>>,
    /// Number of bytes of properties that may still be read.
    left: u64,
}

impl OutlookMessage<'_> {
    fn bytes(&mut self, path: &str) -> Option<Vec<u8>> {
        if self.left == 0 || !self.file.is_stream(path) {
            return None;
        }
        let mut bytes = Vec::new();
        let most = PROPERTY_BYTES_MAX.min(self.left);
        self.file.open_stream(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        self.left = self.left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Some(bytes)
    }

    /// Text property of the mail, or of the attachment in this folder.
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

    /// Subfolders whose names begin with this prefix.
    fn folders(&self, folder: &str, start: &str) -> Vec<String> {
        let Ok(all) = self.file.read_storage(format!("{folder}/")) else { return Vec::new() };
        all.filter(|entry| entry.is_storage() && entry.name().starts_with(start))
            .map(|entry| format!("{folder}/{}", entry.name()))
            .take(ATTACHMENTS_MAX)
            .collect()
    }

    /// Value of a fixed-size property. These are stored in a list, each with its type.
    fn fixed(&mut self, folder: &str, number: u16, kind: u16) -> Option<[u8; 8]> {
        let bytes = self.bytes(&format!("{folder}/__properties_version1.0"))?;
        // A header, then 16 bytes for each property: type, number, flags, value.
        // Each kind of object has a header of its own length ([MS-OXMSG], section 2.4.1).
        let header = match folder.rsplit('/').next() {
            None | Some("") => 32,
            Some(name) if name.starts_with(RECIPIENT) || name.starts_with(ATTACHMENT) => 8,
            Some(_) => 24,
        };
        let (entries, _) = bytes.get(header..)?.as_chunks::<16>();
        let found = entries.iter().find(|entry| {
            u16::from_le_bytes([entry[2], entry[3]]) == number
                && u16::from_le_bytes([entry[0], entry[1]]) == kind
        })?;
        found[8..].try_into().ok()
    }

    /// Time when the mail was sent. Times are in units of 100 nanoseconds since 1601.
    fn date(&mut self, folder: &str) -> Option<String> {
        // The type of times (`PtypTime`).
        let ticks = property::TIMES.into_iter().find_map(|time| self.fixed(folder, time, 0x0040))?;
        iso(u64::from_le_bytes(ticks) / 10_000_000)
    }

    /// Name of a person, with the address if it is known.
    fn person(&mut self, folder: &str, name: &str, addresses: &[&str]) -> String {
        let name = self.text(folder, name);
        // Internal addresses of an organization are paths that mean nothing to readers.
        let mut all = addresses.iter().map(|number| self.text(folder, number));
        let address = all.find(|one| one.contains('@')).unwrap_or_default();
        match () {
            () if address.is_empty() || name.contains(&address) => name,
            () if name.trim().is_empty() => address,
            () => format!("{name} <{address}>"),
        }
    }

    /// The To (1) or Cc (2) recipients; the display text of Outlook if the list does not say.
    fn people(&mut self, folder: &str, kind: u8, shown: &str) -> String {
        let mut people = Vec::new();
        for one in self.folders(folder, RECIPIENT) {
            // The type of whole numbers (`PtypInteger32`).
            let is_theirs = self
                .fixed(&one, property::RECIPIENT_KIND, 0x0003)
                .is_some_and(|value| value[..4] == [kind, 0, 0, 0]);
            if is_theirs {
                people.push(self.person(&one, property::RECIPIENT_NAME, &property::RECIPIENT_ADDRESS));
            }
        }
        people.retain(|one| !one.trim().is_empty());
        if people.is_empty() { self.text(folder, shown) } else { people.join(", ") }
    }

    /// Reads the mail in this folder, nested in `depth` other mails.
    fn mail(&mut self, folder: &str, depth: u8, parts: &mut PartCollector) -> ParsedMail {
        let mut mail = ParsedMail { subject: self.text(folder, property::SUBJECT), ..ParsedMail::default() };
        mail.header("From", self.person(folder, property::SENDER_NAME, &property::SENDER_ADDRESS));
        mail.header("To", self.people(folder, 1, property::TO));
        mail.header("Cc", self.people(folder, 2, property::CC));
        mail.header("Date", self.date(folder).unwrap_or_default());
        mail.text = self.text(folder, property::BODY);
        if mail.text.trim().is_empty() {
            // The HTML repeats the plain text, so it is read only if there is none.
            mail.html = self.text(folder, property::HTML);
        }
        if mail.text.trim().is_empty()
            && mail.html.trim().is_empty()
            && let Some(packed) =
                self.bytes(&format!("{folder}/__substg1.0_{}0102", property::COMPRESSED_BODY))
        {
            match rtf::unpacked(&packed).map(|text| rtf::plain(&text)) {
                Some(Ok(text)) => mail.text = text,
                Some(Err(Unreadable(reason))) => {
                    parts.warn(format!("the text of the mail was left out: {reason}"));
                }
                None => parts.warn("the text of the mail is damaged and was left out"),
            }
        }
        for attached in self.folders(folder, ATTACHMENT) {
            let names = property::NAMES.map(|number| self.text(&attached, number));
            let name =
                names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "attachment".to_owned());
            let data = format!("{attached}/__substg1.0_{}", property::DATA);
            let inner = format!("{data}000D");
            if let Some(bytes) = self.bytes(&format!("{data}0102")) {
                mail.attachments.push((name, bytes));
            } else if depth < DEPTH_MAX && self.file.is_stream(format!("{inner}/__properties_version1.0")) {
                mail.mails.push((name, self.mail(&inner, depth + 1, parts)));
            } else {
                parts.warn(format!("the attachment `{name}` is not a file and was left out"));
            }
        }
        mail
    }
}

/// Formats a time, given in seconds since 1601.
fn iso(seconds: u64) -> Option<String> {
    let (days, rest) = (i64::try_from(seconds / 86_400).ok()?, seconds % 86_400);
    // In years that begin on March 1, starting in the year 0, the leap day is the last day.
    let days = days + 584_694;
    // The calendar repeats after 400 years, which have 146,097 days.
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

/// Extracts the pictures of a mail.
pub(crate) fn pictures(file: &FileInput<'_>) -> Result<FoundPictures, Unreadable> {
    // Missing parts are reported when the mail is read.
    Ok(opened(file, &mut PartCollector::default())?.pictures(file))
}

fn opened(file: &FileInput<'_>, parts: &mut PartCollector) -> Result<ParsedMail, Unreadable> {
    let open = CompoundFile::open(Cursor::new(file.bytes));
    let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
    let mut message = OutlookMessage {
        file: open.map_err(|cause| Unreadable::because("its list of parts is broken", cause))?,
        left: size.saturating_mul(READ_AGAIN_MAX),
    };
    Ok(message.mail("", file.depth, parts))
}

#[cfg(test)]
mod tests {
    use super::iso;

    #[test]
    fn times_count_from_1601() {
        assert_eq!(iso(0).as_deref(), Some("1601-01-01T00:00:00Z"));
        assert_eq!(iso(11_644_473_600).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(iso(11_644_473_600 + 951_827_696).as_deref(), Some("2000-02-29T12:34:56Z"));
        assert_eq!(iso(u64::MAX), None);
    }
}
