//! Normalization of vectors.

/// Scales a vector to length 1; one without a direction is unchanged.
pub(crate) fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    // In f64, because the sum of thousands of small squares would lose digits in f32.
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if length > 0.0 && length.is_finite() {
        for x in &mut vector {
            *x = (f64::from(*x) / length) as f32;
        }
    }
    vector
}
