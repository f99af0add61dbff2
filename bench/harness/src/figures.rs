//! Figures: what was measured, every round of it, and where; to and from JSON.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Of one round each.
pub type Values = Vec<f64>;

#[derive(Serialize, Deserialize, Default)]
pub struct Results {
    pub machine: Machine,
    /// How many rounds, how long they were.
    pub settings: BTreeMap<String, f64>,
    /// By metric and contender.
    pub figures: BTreeMap<String, BTreeMap<String, Values>>,
    /// Contenders and steps that are missing, and why.
    pub skipped: Vec<String>,
    /// What went wrong. Not empty: do not trust the rest.
    pub failures: Vec<String>,
}

#[derive(Serialize, Deserialize, Default)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    pub compiler: String,
    pub nginx: String,
    pub load_average: [String; 2],
    pub seconds: f64,
}

impl Results {
    pub fn put(&mut self, metric: &str, contender: &str, value: f64) {
        let rounds = self.figures.entry(metric.to_owned()).or_default();
        rounds.entry(contender.to_owned()).or_default().push(value);
    }

    pub fn values(&self, metric: &str, contender: &str) -> Option<&Values> {
        self.figures.get(metric)?.get(contender).filter(|values| !values.is_empty())
    }

    pub fn median(&self, metric: &str, contender: &str) -> Option<f64> {
        self.values(metric, contender).map(|values| median(values))
    }

    pub fn read(path: &Path) -> Result<Results, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
    }
}

fn sorted(values: &[f64]) -> Values {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Half the distance of the quartiles, as a share of the median; None for fewer than three rounds.
pub fn spread(values: &[f64]) -> Option<f64> {
    let (sorted, median) = (sorted(values), median(values));
    let count = sorted.len();
    let upper = count * 3 / 4 - usize::from(count.is_multiple_of(4));
    (count > 2 && median > 0.0).then(|| (sorted[upper] - sorted[count / 4]) / 2.0 / median)
}

pub fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MIN, f64::max)
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// As it is printed.
pub fn number(value: f64) -> String {
    if value.abs() >= 100.0 || value == value.trunc() && value.abs() < 1e7 {
        format!("{value:.0}")
    } else if value.abs() < 0.1 {
        format!("{value:.4}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_rounds() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&[1.0, 2.0]), None);
        assert_eq!(spread(&[8.0, 10.0, 12.0]), Some(0.2));
        assert_eq!(spread(&[9.0, 10.0, 10.0, 11.0]), Some(0.0));
        assert_eq!((worst(&[1.0, 3.0, 2.0]), mean(&[1.0, 3.0, 2.0])), (3.0, 2.0));
    }

    #[test]
    fn results_survive_json() {
        let mut results = Results::default();
        results.put("short", "raw-mutex", 1.5);
        results.put("short", "raw-mutex", 2.5);
        let text = serde_json::to_string(&results).unwrap();
        let read: Results = serde_json::from_str(&text).unwrap();
        assert_eq!(read.median("short", "raw-mutex"), Some(2.0));
        assert_eq!(read.median("short", "raw-shared"), None);
    }
}
