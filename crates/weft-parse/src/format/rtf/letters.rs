//! Character encodings of RTF.

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, IBM866, MACINTOSH, SHIFT_JIS, UTF_8, WINDOWS_1252};

/// Encoding of a code page; that of Western Europe if it is unknown.
pub(super) fn of_codepage(number: i32) -> &'static Encoding {
    match number {
        866 => IBM866,
        932 => SHIFT_JIS,
        936 => GBK,
        949 => EUC_KR,
        950 => BIG5,
        10_000 => MACINTOSH,
        65_001 => UTF_8,
        number => Encoding::for_label(format!("windows-{number}").as_bytes()).unwrap_or(WINDOWS_1252),
    }
}

/// Encoding of a font's character set; `None` if it is that of the file.
pub(super) fn of_charset(number: i32) -> Option<&'static Encoding> {
    // The numbers are those of Windows (`lfCharSet`), such as 128 for SHIFTJIS_CHARSET.
    Some(of_codepage(match number {
        77 => 10_000,
        128 => 932,
        129 => 949,
        134 => 936,
        136 => 950,
        161 => 1_253,
        162 => 1_254,
        163 => 1_258,
        177 => 1_255,
        178 => 1_256,
        186 => 1_257,
        204 => 1_251,
        222 => 874,
        238 => 1_250,
        _ => return None,
    }))
}

/// Character that a control word stands for.
pub(super) fn sign(name: &str) -> Option<char> {
    Some(match name {
        "tab" => '\t',
        "emdash" => '\u{2014}',
        "endash" => '\u{2013}',
        "lquote" => '\u{2018}',
        "rquote" => '\u{2019}',
        "ldblquote" => '\u{201c}',
        "rdblquote" => '\u{201d}',
        "bullet" => '\u{2022}',
        "emspace" | "enspace" | "qmspace" => ' ',
        _ => return None,
    })
}
