//! The functions that an expression may use.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{Signed as _, ToPrimitive as _};

use super::number::{CalculationFault, Number};

/// The largest n of n!; a larger factorial has no exact value here, and hardly an approximate one.
const FACTORIAL_MAX: u32 = 500;
/// Maximum number of digits that `round` accepts.
// Beyond it, the scale of a floating-point number would be infinite, and there would be no result.
const ROUND_MAX: i32 = 300;

/// The function names, for messages.
pub(super) const FUNCTIONS: &str = "abs, acos, asin, atan, atan2, avg, cbrt, ceil, cos, cosh, degrees, exp, factorial, \
                         floor, gcd, lcm, ln, log, log10, log2, max, min, mod, pow, radians, round, sign, sin, \
                         sinh, sqrt, sum, tan, tanh, trunc";

/// Calls a function with its values.
///
/// # Errors
/// When the function does not exist, or does not accept this number of values or these values.
pub(super) fn call(name: &str, values: &[Number]) -> Result<Number, CalculationFault> {
    match values {
        [] => Err(format!("`{name}` needs a value")),
        [_] if matches!(name, "atan2" | "mod" | "pow") => Err(format!("`{name}` takes two values")),
        [value] => of_one(name, value),
        [a, b] if matches!(name, "atan2" | "log" | "mod" | "pow" | "round") => of_two(name, a, b),
        [first, rest @ ..] => of_many(name, first, rest),
    }
}

fn of_one(name: &str, x: &Number) -> Result<Number, CalculationFault> {
    let float: fn(f64) -> f64 = match name {
        "abs" => return Ok(if x.is_less(&Number::from(0)) { x.neg() } else { x.clone() }),
        "sign" => {
            let zero = Number::from(0);
            return Ok(Number::from(i64::from(zero.is_less(x)) - i64::from(x.is_less(&zero))));
        }
        "floor" => return x.rounded(BigRational::floor, f64::floor),
        "ceil" => return x.rounded(BigRational::ceil, f64::ceil),
        "round" => return x.rounded(BigRational::round, f64::round),
        "trunc" => return x.rounded(BigRational::trunc, f64::trunc),
        "sqrt" => return x.sqrt(),
        "factorial" => return factorial(x),
        "min" | "max" | "sum" | "avg" | "gcd" | "lcm" => return of_many(name, x, &[]),
        // Checked first: a float would yield an infinity without a reason.
        "ln" | "log" | "log10" | "log2" if !Number::from(0).is_less(x) => {
            return Err("a logarithm requires a number above zero".to_owned());
        }
        "cbrt" => f64::cbrt,
        "exp" => f64::exp,
        "ln" => f64::ln,
        "log" | "log10" => f64::log10,
        "log2" => f64::log2,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "degrees" => f64::to_degrees,
        "radians" => f64::to_radians,
        _ => return Err(format!("there is no function `{name}`")),
    };
    Number::near(float(x.float()))
}

fn of_two(name: &str, a: &Number, b: &Number) -> Result<Number, CalculationFault> {
    match name {
        "atan2" => Number::near(a.float().atan2(b.float())),
        "mod" => a.rem(b),
        "pow" => a.pow(b),
        "log" => of_one("ln", a)?.div(&of_one("ln", b)?),
        _ => round_to(a, b),
    }
}

fn round_to(x: &Number, places: &Number) -> Result<Number, CalculationFault> {
    let places = places.whole().and_then(|places| places.to_i32()).filter(|places| places.abs() <= ROUND_MAX);
    let Some(places) = places else {
        return Err(format!("`round` takes a whole number of digits, at most {ROUND_MAX}"));
    };
    let scale = Number::from(10).pow(&Number::from(i64::from(places)))?;
    of_one("round", &x.mul(&scale)?)?.div(&scale)
}

fn of_many(name: &str, first: &Number, rest: &[Number]) -> Result<Number, CalculationFault> {
    let mut result = first.clone();
    for value in rest {
        result = match name {
            "min" => {
                if value.is_less(&result) {
                    value.clone()
                } else {
                    result
                }
            }
            "max" => {
                if result.is_less(value) {
                    value.clone()
                } else {
                    result
                }
            }
            "sum" | "avg" => result.add(value)?,
            "gcd" => integers(name, &result, value, |a, b| a.gcd(b))?,
            "lcm" => integers(name, &result, value, |a, b| a.lcm(b))?,
            _ => return Err(format!("there is no function `{name}` of {} values", rest.len() + 1)),
        };
    }
    match name {
        "avg" => result.div(&Number::from(i64::try_from(rest.len() + 1).unwrap_or(i64::MAX))),
        _ => Ok(result),
    }
}

fn integers(
    name: &str,
    a: &Number,
    b: &Number,
    work: impl Fn(&BigInt, &BigInt) -> BigInt,
) -> Result<Number, CalculationFault> {
    let (Some(a), Some(b)) = (a.whole(), b.whole()) else {
        return Err(format!("`{name}` takes whole numbers"));
    };
    Number::exact(BigRational::from_integer(work(&a, &b)))
}

/// Returns the factorial.
///
/// # Errors
/// For anything but a small whole number.
pub(super) fn factorial(value: &Number) -> Result<Number, CalculationFault> {
    let n = value.whole().filter(|n| !n.is_negative()).and_then(|n| n.to_u32());
    // An exact value would have more digits than any reader could use.
    let Some(n) = n.filter(|n| *n <= FACTORIAL_MAX) else {
        return Err(format!("`factorial` takes a whole number from 0 to {FACTORIAL_MAX}"));
    };
    Number::exact(BigRational::from_integer(
        (2..=n).fold(BigInt::from(1), |product, factor| product * factor),
    ))
}
