//! Numbers: exact as long as they are small enough, otherwise approximate.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

/// Maximum number of bits of an exact number, for numerator and denominator each.
// So that a step takes microseconds: with unbounded numbers, `9^9^9` would never return.
const BITS_MAX: u64 = 4_096;
/// Number of digits of a non-terminating fraction.
// More than a floating-point number has, so that an exact fraction is shown more precisely than an approximate one.
const DIGITS: usize = 20;
/// Maximum number of decimal places with which an exact number is shown.
// Longer fractions are shown rounded: a text of a thousand digits is of no use.
const PLACES_MAX: usize = 40;

/// A number, exact as long as its operations allow.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// A whole number or a fraction.
    Exact(BigRational),
    /// A floating-point number, finite.
    Near(f64),
}

/// Why there is no result.
pub(super) type CalculationFault = String;

fn fits(value: &BigRational) -> bool {
    value.numer().bits() <= BITS_MAX && value.denom().bits() <= BITS_MAX
}

fn near(value: f64) -> Result<Number, CalculationFault> {
    if value.is_nan() {
        return Err("the result is not a real number".to_owned());
    }
    if value.is_infinite() {
        return Err("the result is too large".to_owned());
    }
    Ok(Number::Near(value))
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Exact(BigRational::from_integer(value.into()))
    }
}

impl Number {
    /// Returns a constant or a measured value.
    ///
    /// # Errors
    /// For a value that is not finite.
    pub(super) fn near(value: f64) -> Result<Self, CalculationFault> {
        near(value)
    }

    /// Returns the exact value if it is small enough, otherwise the nearest float.
    pub(super) fn exact(value: BigRational) -> Result<Self, CalculationFault> {
        if fits(&value) { Ok(Self::Exact(value)) } else { near(value.to_f64().unwrap_or(f64::NAN)) }
    }

    /// Parses a number: digits, at most one point, and an exponent.
    pub(super) fn parse(text: &str) -> Result<Self, CalculationFault> {
        let wrong = || format!("`{text}` is not a number");
        // This also checks whether the text is a number at all.
        let float: f64 = text.parse().map_err(|_| wrong())?;
        let lower = text.to_ascii_lowercase();
        let (digits, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
        let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent: i64 = exponent.parse().map_err(|_| wrong())?;
        let size = i64::try_from(places.len()).ok().and_then(|places| exponent.checked_sub(places));
        // A number with more digits than an exact number can have is not worth building.
        let limit = i64::try_from(BITS_MAX / 3).unwrap_or(i64::MAX);
        match size.filter(|size| size.abs() <= limit && digits.len() <= 4 * DIGITS * DIGITS) {
            None => near(float),
            Some(size) => {
                // Prefixed with a 0, since `.5` has no integer part.
                let digits: BigInt = format!("0{whole}{places}").parse().map_err(|_| wrong())?;
                let power = BigInt::from(10).pow(u32::try_from(size.unsigned_abs()).unwrap_or(0));
                let value = if size >= 0 {
                    BigRational::from_integer(digits * power)
                } else {
                    BigRational::new(digits, power)
                };
                Self::exact(value)
            }
        }
    }

    /// Returns the nearest floating-point number.
    pub(super) fn float(&self) -> f64 {
        match self {
            Self::Exact(value) => value.to_f64().unwrap_or(f64::NAN),
            Self::Near(value) => *value,
        }
    }

    /// Returns the whole number, if it is one.
    pub(super) fn whole(&self) -> Option<BigInt> {
        match self {
            Self::Exact(value) => value.is_integer().then(|| value.to_integer()),
            Self::Near(_) => None,
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_zero(),
            Self::Near(value) => *value == 0.0,
        }
    }

    fn with(
        &self,
        other: &Self,
        exact: impl Fn(&BigRational, &BigRational) -> BigRational,
        float: impl Fn(f64, f64) -> f64,
    ) -> Result<Self, CalculationFault> {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => Self::exact(exact(a, b)),
            (a, b) => near(float(a.float(), b.float())),
        }
    }

    /// Returns the sum.
    pub(super) fn add(&self, other: &Self) -> Result<Self, CalculationFault> {
        self.with(other, |a, b| a + b, |a, b| a + b)
    }

    /// Returns the difference.
    pub(super) fn sub(&self, other: &Self) -> Result<Self, CalculationFault> {
        self.with(other, |a, b| a - b, |a, b| a - b)
    }

    /// Returns the product.
    pub(super) fn mul(&self, other: &Self) -> Result<Self, CalculationFault> {
        self.with(other, |a, b| a * b, |a, b| a * b)
    }

    /// Returns the quotient.
    pub(super) fn div(&self, other: &Self) -> Result<Self, CalculationFault> {
        if other.is_zero() {
            return Err("this divides by zero".to_owned());
        }
        self.with(other, |a, b| a / b, |a, b| a / b)
    }

    /// Returns the remainder of a division that rounds down: it has the sign of the divisor.
    pub(super) fn rem(&self, other: &Self) -> Result<Self, CalculationFault> {
        if other.is_zero() {
            return Err("this divides by zero".to_owned());
        }
        self.with(other, |a, b| a - b * (a / b).floor(), |a, b| a - b * (a / b).floor())
    }

    /// Returns the negated number.
    pub(super) fn neg(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(-value),
            Self::Near(value) => Self::Near(-value),
        }
    }

    /// Returns the power.
    pub(super) fn pow(&self, exponent: &Self) -> Result<Self, CalculationFault> {
        if let (Self::Exact(base), Some(power)) = (self, exponent.whole()) {
            // Checked first: the library panics in this case.
            if base.is_zero() && power.is_negative() {
                return Err("this divides by zero".to_owned());
            }
            let bits = base.numer().bits().max(base.denom().bits());
            // Zero, one and minus one stay small whatever the power is.
            if let Some(power) =
                power.to_i32().filter(|power| bits * u64::from(power.unsigned_abs()) <= BITS_MAX)
            {
                return Self::exact(base.pow(power));
            }
            if bits <= 1 && base.is_integer() {
                let odd = !(&power % 2_i32).is_zero();
                return Ok(if odd || base.is_zero() { self.clone() } else { Self::from(1) });
            }
        }
        near(self.float().powf(exponent.float()))
    }

    /// Returns the square root.
    pub(super) fn sqrt(&self) -> Result<Self, CalculationFault> {
        if let Self::Exact(value) = self
            && !value.is_negative()
        {
            // In lowest terms, a fraction has an exact root only if both of its parts have one.
            let (above, below) = (value.numer().sqrt(), value.denom().sqrt());
            if &above * &above == *value.numer() && &below * &below == *value.denom() {
                return Ok(Self::Exact(BigRational::new(above, below)));
            }
        }
        near(self.float().sqrt())
    }

    /// Applies a rounding function to the number.
    pub(super) fn rounded(
        &self,
        exact: impl Fn(&BigRational) -> BigRational,
        float: impl Fn(f64) -> f64,
    ) -> Result<Self, CalculationFault> {
        match self {
            Self::Exact(value) => Self::exact(exact(value)),
            Self::Near(value) => near(float(*value)),
        }
    }

    /// Whether the number is less than another one.
    pub(super) fn is_less(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a < b,
            (a, b) => a.float() < b.float(),
        }
    }

    /// Returns the number as text, and whether the text is exact.
    pub(super) fn told(&self) -> (String, bool) {
        match self {
            Self::Near(value) => (float_text(*value), false),
            Self::Exact(value) if value.is_integer() => (value.to_integer().to_string(), true),
            Self::Exact(value) => match places(value.denom()) {
                Some(places) => (decimal(value, places), true),
                None => (rounded_text(value), false),
            },
        }
    }
}

/// Returns the number of decimal places of a fraction with this denominator, if it terminates soon.
fn places(denominator: &BigInt) -> Option<usize> {
    (1..=PLACES_MAX).find(|places| (power_of_ten(*places) % denominator).is_zero())
}

fn power_of_ten(places: usize) -> BigInt {
    BigInt::from(10).pow(u32::try_from(places).unwrap_or(u32::MAX))
}

/// Returns the value rounded to `places` decimal places.
fn decimal(value: &BigRational, places: usize) -> String {
    let scaled = (value * BigRational::from_integer(power_of_ten(places))).round().to_integer();
    let digits = scaled.abs().to_string();
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, behind) = digits.split_at(digits.len() - places);
    let behind = behind.trim_end_matches('0');
    let sign = if scaled.is_negative() { "-" } else { "" };
    if behind.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{behind}") }
}

/// Formats a non-terminating fraction.
fn rounded_text(value: &BigRational) -> String {
    let whole = value.to_integer();
    if whole.is_zero() && value.abs() < BigRational::new(BigInt::one(), power_of_ten(6)) {
        return float_text(value.to_f64().unwrap_or(0.0));
    }
    let before = if whole.is_zero() { 0 } else { whole.abs().to_string().len() };
    decimal(value, DIGITS.saturating_sub(before).max(1))
}

/// Formats with 15 digits, which a floating-point number is certain to hold.
fn float_text(value: f64) -> String {
    const PLAIN: std::ops::Range<f64> = 1e-6..1e15;
    let rounded: f64 = format!("{value:.14e}").parse().unwrap_or(value);
    if rounded == 0.0 {
        return "0".to_owned();
    }
    if PLAIN.contains(&rounded.abs()) { format!("{rounded}") } else { format!("{rounded:e}") }
}
