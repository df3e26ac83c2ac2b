//! Parses an expression and evaluates it on the way.
//!
//! ```text
//! sum     = product *( ("+" | "-") product )
//! product = sign *( ("*" | "/" | "%") sign )
//! sign    = ("+" | "-") sign | power
//! power   = mark [ ("^" | "**") sign ]          (from the right: 2^3^2 is 2^9, and -2^2 is -4)
//! mark    = value *"!"
//! value   = number | constant | name "(" sum *("," sum) ")" | "(" sum ")"
//! ```

use weft_core::{Error, Result};

use super::functions::{FUNCTIONS, call, factorial};
use super::number::{CalculationFault, Number};

/// Maximum number of characters in an expression.
// A model may paste a column of numbers into `sum(…)`; more than that belongs in a table.
const LENGTH_MAX: usize = 10_000;
/// Maximum nesting depth of parentheses, signs and powers.
// Parsing recurses through several functions for each, possibly on the stack of a shared worker thread.
const DEPTH_MAX: usize = 64;
/// Maximum number of steps in one calculation.
// Each may work with the largest numbers, and all of them together should take about a second.
const STEPS_MAX: usize = 5_000;

/// Evaluates an expression.
///
/// # Errors
/// `Invalid` with the position of the offending character, counted from 1.
pub(super) fn evaluate(text: &str) -> Result<Number> {
    let chars: Vec<char> = text.chars().take(LENGTH_MAX + 1).collect();
    if chars.len() > LENGTH_MAX {
        return Err(Error::invalid(format!("the expression has more than {LENGTH_MAX} characters"))
            .help("calculate it in parts"));
    }
    let mut reader = ExpressionReader { chars: &chars, at: 0, depth: 0, steps: 0 };
    let result = reader.sum().and_then(|number| match reader.peek() {
        None => Ok(number),
        Some(found) => Err(reader.unexpected(found)),
    });
    result.map_err(|Wrong { at, message }| {
        Error::invalid(format!("cannot work out the expression: at character {}: {message}", at + 1)).help(
            format!("there are + - * / % ^ !, parentheses, pi, e, tau, and these functions: {FUNCTIONS}"),
        )
    })
}

/// An error and its position.
struct Wrong {
    at: usize,
    message: String,
}

struct ExpressionReader<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
    steps: usize,
}

impl ExpressionReader<'_> {
    /// Returns the next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        // Operators as people and models type them.
        self.chars.get(self.at).map(|c| match c {
            '×' | '·' | '⋅' => '*',
            '÷' => '/',
            '−' | '–' => '-',
            other => *other,
        })
    }

    fn take(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += 1;
        }
        found
    }

    fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong { at: self.at, message: message.into() }
    }

    fn unexpected(&self, found: char) -> Wrong {
        self.wrong(match found {
            ')' => "there is no `(` for this `)`".to_owned(),
            ',' => "a comma separates the arguments of a function; write 1000, not 1,000".to_owned(),
            c if c.is_alphanumeric() || c == '(' => {
                "an operator is missing; write `2 * x`, not `2 x`".to_owned()
            }
            c => format!("unexpected character {c:?}"),
        })
    }

    /// Counts a step at the position `at`; its error is reported with that position.
    fn step<T>(&mut self, at: usize, outcome: std::result::Result<T, CalculationFault>) -> Result<T, Wrong> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Wrong { at, message: format!("this takes more than {STEPS_MAX} steps") });
        }
        outcome.map_err(|message| Wrong { at, message })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(format!("this is nested more than {DEPTH_MAX} levels deep")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn sum(&mut self) -> Result<Number, Wrong> {
        let mut left = self.product()?;
        while let Some(operator @ ('+' | '-')) = self.peek() {
            let at = self.at;
            self.at += 1;
            let right = self.product()?;
            let outcome = if operator == '+' { left.add(&right) } else { left.sub(&right) };
            left = self.step(at, outcome)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Number, Wrong> {
        let mut left = self.sign()?;
        while let Some(operator @ ('*' | '/' | '%')) = self.peek() {
            let at = self.at;
            self.at += 1;
            if operator == '/' && self.take('/') {
                return Err(Wrong {
                    at,
                    message: "`//` is not an operator; write `floor(a / b)`".to_owned(),
                });
            }
            // Without `-`: it may start a negative number.
            if operator == '%' && matches!(self.peek(), None | Some(')' | ',' | '+' | '*' | '/' | '%' | '^'))
            {
                let message =
                    "`%` is the remainder of a division and needs a number after it; write 5% as 5 / 100";
                return Err(Wrong { at, message: message.to_owned() });
            }
            let right = self.sign()?;
            let outcome = match operator {
                '*' => left.mul(&right),
                '/' => left.div(&right),
                _ => left.rem(&right),
            };
            left = self.step(at, outcome)?;
        }
        Ok(left)
    }

    fn sign(&mut self) -> Result<Number, Wrong> {
        match self.peek() {
            Some('-') => {
                self.at += 1;
                self.deeper(Self::sign).map(|number| number.neg())
            }
            Some('+') => {
                self.at += 1;
                self.deeper(Self::sign)
            }
            _ => self.power(),
        }
    }

    fn power(&mut self) -> Result<Number, Wrong> {
        let base = self.mark()?;
        let at = self.at;
        let stars = self.peek() == Some('*') && self.chars.get(self.at + 1) == Some(&'*');
        if !stars && self.peek() != Some('^') {
            return Ok(base);
        }
        self.at += if stars { 2 } else { 1 };
        let exponent = self.deeper(Self::sign)?;
        let outcome = base.pow(&exponent);
        self.step(at, outcome)
    }

    fn mark(&mut self) -> Result<Number, Wrong> {
        let mut value = self.value()?;
        while self.peek() == Some('!') {
            let outcome = factorial(&value);
            value = self.step(self.at, outcome)?;
            self.at += 1;
        }
        Ok(value)
    }

    fn value(&mut self) -> Result<Number, Wrong> {
        match self.peek() {
            None => Err(self.wrong("a number is missing")),
            Some('(') => {
                let open = self.at;
                self.at += 1;
                let inside = self.deeper(Self::sum)?;
                self.close(open)?;
                Ok(inside)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.name(),
            Some(',' | ')' | '*' | '/' | '%' | '^' | '!') => Err(self.wrong("a number is missing")),
            Some(other) => Err(self.unexpected(other)),
        }
    }

    fn close(&mut self, open: usize) -> Result<(), Wrong> {
        if self.take(')') {
            return Ok(());
        }
        match self.peek() {
            None => Err(Wrong { at: open, message: "there is no `)` for this `(`".to_owned() }),
            Some(found) => Err(self.unexpected(found)),
        }
    }

    fn while_char(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let text: String = rest.iter().copied().take_while(|c| belongs(*c)).collect();
        self.at += text.chars().count();
        text
    }

    fn number(&mut self) -> Result<Number, Wrong> {
        let at = self.at;
        let mut text = self.while_char(|c| c.is_ascii_digit() || c == '.');
        if let Some('e' | 'E') = self.chars.get(self.at) {
            let signed = matches!(self.chars.get(self.at + 1), Some('+' | '-'));
            let digit = self.at + if signed { 2 } else { 1 };
            // Without digits, the letter is the constant.
            if self.chars.get(digit).is_some_and(char::is_ascii_digit) {
                text.extend(self.chars.get(self.at..digit).unwrap_or_default());
                self.at = digit;
                text.push_str(&self.while_char(|c| c.is_ascii_digit()));
            }
        }
        let outcome = Number::parse(&text);
        self.step(at, outcome)
    }

    fn name(&mut self) -> Result<Number, Wrong> {
        let at = self.at;
        let name = self.while_char(|c| c.is_alphanumeric() || c == '_').to_lowercase();
        if self.peek() != Some('(') {
            let constant = match name.as_str() {
                "pi" | "π" => Ok(std::f64::consts::PI),
                "e" => Ok(std::f64::consts::E),
                "tau" | "τ" => Ok(std::f64::consts::TAU),
                _ => Err(format!("`{name}` is not a constant")),
            };
            return self.step(at, constant.and_then(Number::near));
        }
        let open = self.at;
        self.at += 1;
        let mut values = vec![self.deeper(Self::sum)?];
        while self.take(',') {
            values.push(self.deeper(Self::sum)?);
        }
        self.close(open)?;
        let outcome = call(&name, &values);
        self.step(at, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;
    use proptest::prelude::*;

    fn told(expression: &str) -> String {
        match evaluate(expression) {
            Ok(number) => number.told().0,
            Err(error) => error.message,
        }
    }

    #[test]
    fn results() {
        let check = |expression: &str, expected: &str| assert_eq!(told(expression), expected, "{expression}");
        check("1 + 2 * 3 - 4 / 8", "6.5");
        check("(1 + 2) * -3", "-9");
        check("-2^2", "-4");
        check("2^3^2", "512");
        check("2**-1", "0.5");
        check("10 % 3 + -7 % 3", "3");
        check(
            "5.5 mod 2",
            "cannot work out the expression: at character 5: an operator is missing; write `2 * x`, not `2 x`",
        );
        check("mod(5.5, 2)", "1.5");
        check("0.1 + 0.2", "0.3");
        check("1/3", "0.33333333333333333333");
        check("2000/3", "666.66666666666666667");
        check("1/3*3", "1");
        check("1e3 + 1.5E-1 + .5", "1000.65");
        check("6 ÷ 2 × 3 − 1", "8");
        check("123456789012345678901234567890 * 987654321", "121932631124828532112482853211126352690");
        check("2^100", "1267650600228229401496703205376");
        check("2^100000 * 0", "cannot work out the expression: at character 2: the result is too large");
        check("2^5000 / 2^4999", "cannot work out the expression: at character 2: the result is too large");
        check("(-1)^999999999999 + 1^(10^30)", "0");
        check("0^0", "1");
        check("20! / 18!", "380");
        check("3!!", "720");
        check("170!/170!", "1");
        check("-0.5 - 0.25", "-0.75");
        check("-1e-50 / 3", "-3.33333333333333e-51");
    }

    #[test]
    fn functions_and_constants() {
        let check = |expression: &str, expected: &str| assert_eq!(told(expression), expected, "{expression}");
        check("sqrt(16) + sqrt(2.25) + sqrt(1/9)", "5.8333333333333333333");
        check("sqrt(2)", "1.4142135623731");
        check("pi", "3.14159265358979");
        check("sin(pi / 2) + cos(0) + PI * 0", "2");
        check("ln(e)", "1");
        check("log(1000) + log2(8) + log10(10)", "7");
        check("log(8, 2)", "3");
        check("round(2.567, 2)", "2.57");
        check("round(-2.5) + round(1234, -2)", "1197");
        check("floor(-1.5) + ceil(1.2) + trunc(-1.9)", "-1");
        check("max(1, 3, 2) - min(4, 2.5)", "0.5");
        check("sum(1, 2, 3) / avg(1, 2, 3)", "3");
        check("gcd(12, 18) * lcm(4, 6)", "72");
        check("abs(-3/4) + sign(-2)", "-0.25");
        check("factorial(5) + pow(2, 3)", "128");
        check("degrees(pi) + radians(0)", "180");
        check("exp(1e-20)", "1");
        check("1e300 * 1e300", &format!("1{}", "0".repeat(600)));
    }

    #[test]
    fn errors_have_their_position() {
        let check = |expression: &str, at: usize, part: &str| {
            let said = told(expression);
            assert!(
                said.contains(&format!("at character {at}: ")) && said.contains(part),
                "{expression}: {said}"
            );
        };
        check("", 1, "a number is missing");
        check("1 +", 4, "a number is missing");
        check("(1 + 2", 1, "no `)`");
        check("1 + 2)", 6, "no `(`");
        check("1,000 * 2", 2, "1000");
        check("2 $ 3", 3, "'$'");
        check("2 pi", 3, "operator");
        check("7 // 2", 3, "floor");
        check("200 * 5%", 8, "5 / 100");
        check("1 / (2 - 2)", 3, "by zero");
        check("0^-1", 2, "by zero");
        check("1 % 0", 3, "by zero");
        check("sqrt(-1)", 1, "real");
        check("ln(0)", 1, "above zero");
        check("2 * foo(3)", 5, "`foo`");
        check("x + 1", 1, "`x`");
        check("min()", 5, "missing");
        check("atan2(1)", 1, "atan2");
        check("sin(1, 2)", 1, "of 2 values");
        check("1.2.3", 1, "not a number");
        check("1e400^2000", 6, "too large");
        check("501!", 4, "500");
        check("9^9^9^9", 4, "too large");
        check("import os", 1, "`import`");
    }

    #[test]
    fn large_and_deep_inputs_end_quickly() {
        let check =
            |expression: &str, part: &str| assert!(told(expression).contains(part), "{}", told(expression));
        check(&"1".repeat(1_000_000), "10000 characters");
        check(&"(".repeat(5_000), "nested");
        check(&"-".repeat(5_000), "nested");
        check(&"2^".repeat(4_000), "nested");
        check(&"sqrt(".repeat(1_000), "nested");
        check(&"9".repeat(9_000), "too large");
        check(&format!("1{}", "+1".repeat(4_999)), "steps");
        assert_eq!(told(&format!("1{}", "+1".repeat(2_000))), "2001");
        check(&format!("3!{}", "!".repeat(9_000)), "500");
        let fractions: String = (1..1_200).map(|n| format!("+1/{n}")).collect();
        assert!(told(&format!("0{fractions}")).starts_with("7.66"), "{}", told(&format!("0{fractions}")));
        let powers = "(1/3)^2500+(1/7)^1400".to_owned() + &"+(1/3)^2500*(2/7)^1400".repeat(200);
        assert!(!told(&powers).is_empty());
    }

    proptest! {
        #[test]
        fn no_text_panics_or_runs_forever(text in "\\PC{0,200}") {
            let _ = evaluate(&text).map(|number| number.told());
        }

        #[test]
        fn no_expression_panics_or_runs_forever(
            text in "([0-9]{1,9}|\\.|e[-+]?[0-9]{1,9}|[-+*/%^!(),]|\\*\\*| |pi|sqrt\\(|round\\(|log\\(|gcd\\(|max\\(){0,80}"
        ) {
            let _ = evaluate(&text).map(|number| number.told());
        }

        #[test]
        fn sums_of_decimals_are_exact(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000) {
            let decimal = |n: i64| format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, n.abs() / 1000, n.abs() % 1000);
            let difference = format!("({}) + ({}) - ({})", decimal(a), decimal(b), decimal(a + b));
            prop_assert_eq!(told(&difference), "0");
        }
    }
}
