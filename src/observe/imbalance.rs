//! How evenly something is spread over workers. Pure.

/// Gathered one worker at a time, so that no list of them is needed.
#[derive(Default)]
pub struct Imbalance {
    count: u64,
    sum: f64,
    sum_of_squares: f64,
    least: u64,
    most: u64,
}

impl Imbalance {
    pub fn add(&mut self, value: u64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.count += 1;
        self.sum += value as f64;
        self.sum_of_squares += value as f64 * value as f64;
    }

    /// The least and the most; zeros if there is nothing to compare.
    pub fn range(&self) -> (u64, u64) {
        (self.least, self.most)
    }

    /// Jain's index, the square of the sum over n times the sum of squares (Jain, Chiu and Hawe,
    /// 1984): 1: all equal; 1/n: one has all. Nothing at all is spread evenly.
    pub fn jain(&self) -> f64 {
        if self.sum_of_squares == 0.0 {
            return 1.0;
        }
        self.sum * self.sum / (self.count as f64 * self.sum_of_squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_by_jain() {
        let table: [(&[u64], (u64, u64), f64); 6] = [
            (&[], (0, 0), 1.0),
            (&[0, 0, 0], (0, 0), 1.0),
            (&[7], (7, 7), 1.0),
            (&[5, 5, 5, 5], (5, 5), 1.0),
            (&[0, 400, 0, 0], (0, 400), 0.25),
            (&[1, 3], (1, 3), 0.8),
        ];
        for (values, range, jain) in table {
            let mut imbalance = Imbalance::default();
            values.iter().for_each(|&value| imbalance.add(value));
            assert_eq!(imbalance.range(), range, "{values:?}");
            assert!((imbalance.jain() - jain).abs() < 1e-9, "{values:?}");
        }
    }
}
