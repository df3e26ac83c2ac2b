//! The Gaussian error linear unit, computed in place and fast enough to be negligible beside the matrix products.

use candle_core::{CpuStorage, Error, InplaceOp1, Layout, Result};

/// x · Φ(x), where Φ is the distribution function of the normal distribution, within 10⁻⁶.
pub(super) struct Gelu;

impl InplaceOp1 for Gelu {
    fn name(&self) -> &'static str {
        "gelu in place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (CpuStorage::F32(numbers), Some((start, end))) = (storage, layout.contiguous_offsets()) else {
            return Err(Error::Msg("gelu is for whole tensors of f32".to_owned()));
        };
        for x in &mut numbers[start..end] {
            *x *= 0.5 + 0.5 * erf(*x * std::f32::consts::FRAC_1_SQRT_2);
        }
        Ok(())
    }
}

/// The error function by approximation 7.1.26 of Abramowitz and Stegun, without branches, so that the compiler can
/// vectorize it.
#[inline]
fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let poly =
        t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152_1 + t * 1.061_405_4))));
    (1.0 - poly * exp_of_negative(-a * a)).copysign(x)
}

/// e^x for x ≤ 0: a power of two through the exponent bits, and a polynomial for the remainder.
#[inline]
fn exp_of_negative(x: f32) -> f32 {
    // Below this, e^x is smaller than the precision of any sum here.
    let x = x.max(-80.0) * std::f32::consts::LOG2_E;
    // Adding and subtracting 1.5 · 2²³ rounds to an integer without a function call.
    let whole = (x + 12_582_912.0) - 12_582_912.0;
    let rest = (x - whole) * std::f32::consts::LN_2;
    let poly = 1.0
        + rest
            * (1.0
                + rest
                    * (0.5
                        + rest
                            * (0.166_666_67
                                + rest * (0.041_666_67 + rest * (0.008_333_334 + rest * 0.001_388_889)))));
    poly * f32::from_bits(((whole as i32 + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Tensor};

    #[test]
    fn fast_gelu_matches_the_reference() {
        let inputs: Vec<f32> = (-2400..=2400).map(|at| at as f32 / 200.0).collect();
        let count = inputs.len();
        let slow = Tensor::from_vec(inputs.clone(), count, &Device::Cpu).unwrap().gelu_erf().unwrap();
        let fast = Tensor::from_vec(inputs, count, &Device::Cpu).unwrap();
        fast.inplace_op1(&Gelu).unwrap();
        let slow: Vec<f32> = slow.to_vec1().unwrap();
        let fast: Vec<f32> = fast.to_vec1().unwrap();
        for (slow, fast) in slow.iter().zip(&fast) {
            assert!((slow - fast).abs() < 3e-6, "{slow} {fast}");
        }
    }
}
