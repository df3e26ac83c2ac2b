//! Formats the numbers of headings, paragraphs and list items.

/// Formats a number in a list, given the name of a number format in Word.
pub(super) fn numeral(number: u32, format: &str) -> String {
    match format {
        "lowerLetter" => letters(number),
        "upperLetter" => letters(number).to_uppercase(),
        "lowerRoman" => roman(number).to_lowercase(),
        "upperRoman" => roman(number),
        "decimalZero" => format!("{number:02}"),
        format
            if format.starts_with("chinese")
                || format.starts_with("japanese")
                || format == "ideographDigital" =>
        {
            chinese(number)
        }
        _ => number.to_string(),
    }
}

fn letters(number: u32) -> String {
    // After `z` comes `aa`, then `bb`. The length is capped, because the number comes from the file.
    let index = number.saturating_sub(1);
    let letter = char::from(b'a' + u8::try_from(index % 26).unwrap_or_default());
    letter.to_string().repeat(usize::try_from(index / 26 + 1).unwrap_or(1).min(10))
}

fn roman(number: u32) -> String {
    const SIGNS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    // Capped, because the number comes from the file and each thousand adds a character.
    let mut rest = number.min(5_000);
    let mut text = String::new();
    for (value, sign) in SIGNS {
        while rest >= value {
            text.push_str(sign);
            rest -= value;
        }
    }
    text
}

/// Chinese numerals up to 9999, as used for the articles of laws.
fn chinese(number: u32) -> String {
    const DIGITS: [char; 10] = ['零', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
    const UNITS: [(u32, &str); 4] = [(1000, "千"), (100, "百"), (10, "十"), (1, "")];
    if number == 0 || number > 9_999 {
        return number.to_string();
    }
    let (mut text, mut skipped) = (String::new(), false);
    for (unit, sign) in UNITS {
        let digit = number / unit % 10;
        if digit == 0 {
            skipped |= !text.is_empty();
            continue;
        }
        if std::mem::take(&mut skipped) {
            text.push('零');
        }
        // Eleven is "ten one", not "one ten one".
        if !(text.is_empty() && digit == 1 && unit == 10) {
            text.push(DIGITS[digit as usize]);
        }
        text.push_str(sign);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_numeral_format_is_rendered() {
        let check = |number: u32, format: &str, expected: &str| assert_eq!(numeral(number, format), expected);
        check(3, "decimal", "3");
        check(28, "lowerLetter", "bb");
        check(14, "upperRoman", "XIV");
        check(7, "decimalZero", "07");
        check(11, "chineseCounting", "十一");
        check(205, "chineseCountingThousand", "二百零五");
        check(1_010, "japaneseCounting", "一千零一十");
    }
}
