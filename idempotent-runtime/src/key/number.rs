//! Decimal numbers by their value: `1.50` and `1.5` are the same number, and `1.0` is `1`.

use super::KeyWriter;

/// The longest number that is written without an exponent, in digits. All integers of Rust are
/// shorter.
const LONGEST: usize = 40;

/// Writes a number of the form that JSON has. A text that is none is written as text.
pub(super) fn write(text: &str, key: &mut KeyWriter) {
    match normal(text) {
        Some(number) => key.number(&number),
        None => key.text(text),
    }
}

/// The one form of all texts of a number: an integer, a decimal fraction, or an integer with an
/// exponent if the others would be long. `None` if it is no number.
fn normal(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let significant = digits.trim_end_matches('0');
    exponent = exponent.checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let length = significant.len();
    let shift = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    let number = match exponent {
        0.. if shift.saturating_add(length) <= LONGEST => {
            format!("{significant}{}", "0".repeat(shift))
        }
        ..0 if shift < length => {
            let (whole, fraction) = significant.split_at(length - shift);
            format!("{whole}.{fraction}")
        }
        ..0 if shift <= LONGEST => format!("0.{}{significant}", "0".repeat(shift - length)),
        _ => format!("{significant}e{exponent}"),
    };
    Some(format!("{sign}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_has_one_form() {
        for (texts, number) in [
            (["0", "-0", "0.0", "0e7", "-0.000"].as_slice(), "0"),
            (&["1", "1.0", "1.00", "10e-1", "0.1e1", "1E0", "1e+0"], "1"),
            (&["-12.5", "-12.50", "-1.25e1", "-125e-1"], "-12.5"),
            (&["0.05", "5e-2", "0.0500"], "0.05"),
            (&["1200", "1.2e3", "12e2"], "1200"),
            (&["1e300", "10e299", "1.0e300"], "1e300"),
            (&["2.5e-300", "25e-301"], "25e-301"),
            (
                &["340282366920938463463374607431768211455"],
                "340282366920938463463374607431768211455",
            ),
        ] {
            for text in texts {
                assert_eq!(normal(text).as_deref(), Some(number), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_text() {
        for text in ["", "-", ".", "e1", "1e", "1e99999999999999999999", "NaN", "1,5", "0x1"] {
            assert_eq!(normal(text), None, "{text}");
        }
    }
}
