//! A figure: what was measured, beside what the machine can do at best.

use serde::Serialize;
use serde_json::{Map, Value};

/// What one workload came to on one database. Printed as one line of JSON, and as a row of the table at the end.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// Which workload.
    pub(crate) workload: &'static str,
    /// Which database.
    pub(crate) backend: &'static str,
    /// How many samples, tasks or jobs it is made of.
    pub(crate) n: usize,
    /// The figure that counts.
    pub(crate) value: f64,
    /// What it counts.
    pub(crate) unit: &'static str,
    /// The median of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50: Option<f64>,
    /// Ninety-nine of a hundred samples are no more than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99: Option<f64>,
    /// The same of the bare machine, measured before and after, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor: Option<f64>,
    /// Value by floor: what to compare between machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// What was promised, in words.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) reach: &'static str,
    /// Whether that is kept; none where nothing was promised, or where too little ran to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reached: Option<bool>,
    /// What else was seen.
    #[serde(flatten)]
    pub(crate) more: Map<String, Value>,
}

impl Figure {
    /// A figure with nothing beside it yet.
    pub(crate) fn new(workload: &'static str, backend: &'static str, n: usize, value: f64, unit: &'static str) -> Self {
        Self {
            workload,
            backend,
            n,
            value: round(value),
            unit,
            p50: None,
            p99: None,
            floor: None,
            ratio: None,
            reach: "",
            reached: None,
            more: Map::new(),
        }
    }

    /// The median of samples, with their percentiles.
    pub(crate) fn median(
        workload: &'static str,
        backend: &'static str,
        samples: &mut [f64],
        unit: &'static str,
    ) -> Self {
        let (p50, p99) = (percentile(samples, 50.0), percentile(samples, 99.0));
        Self { p50: Some(round(p50)), p99: Some(round(p99)), ..Self::new(workload, backend, samples.len(), p50, unit) }
    }

    /// With the floor of the machine.
    pub(crate) fn over(mut self, floor: f64) -> Self {
        self.floor = Some(round(floor));
        self.ratio = (floor > 0.0).then(|| round(self.value / floor));
        self
    }

    /// With what was promised.
    pub(crate) fn reach(mut self, reach: &'static str, reached: bool) -> Self {
        self.reach = reach;
        self.reached = Some(reached);
        self
    }

    /// With something else that was seen.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// As a line of JSON.
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).expect("a figure has a JSON form")
    }
}

/// Three digits that mean something are enough.
pub(crate) fn round(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { (value * 1_000.0).round() / 1_000.0 }
}

/// The value that so many percent of the samples do not exceed. Sorts them.
pub(crate) fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let Some(last) = samples.len().checked_sub(1) else { return f64::NAN };
    let at = (percent / 100.0 * samples.len() as f64).ceil() as usize;
    samples[at.saturating_sub(1).min(last)]
}

/// The table at the end.
pub(crate) fn table(figures: &[Figure]) -> String {
    let header = ["workload", "backend", "n", "value", "unit", "p50", "p99", "floor", "ratio", "reach"];
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let mut rows = vec![header.map(str::to_owned)];
    for figure in figures {
        let reach = match figure.reached {
            Some(true) => format!("{}: yes", figure.reach),
            Some(false) => format!("{}: NO", figure.reach),
            None => figure.reach.to_owned(),
        };
        rows.push([
            figure.workload.to_owned(),
            figure.backend.to_owned(),
            figure.n.to_string(),
            figure.value.to_string(),
            figure.unit.to_owned(),
            number(figure.p50),
            number(figure.p99),
            number(figure.floor),
            number(figure.ratio),
            reach,
        ]);
    }
    let widths: Vec<usize> =
        (0..header.len()).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or_default()).collect();
    let lines = rows.iter().map(|row| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let mut samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let found = [percentile(&mut samples, 50.0), percentile(&mut samples, 99.0), percentile(&mut [7.0], 99.0)];
        assert_eq!(found.map(|value| value.to_string()), ["100", "198", "7"]);
    }

    #[test]
    fn a_figure_says_how_far_it_is_from_the_floor() {
        let figure = Figure::median("p3", "sqlite", &mut [3.0, 1.0, 2.0], "ms").over(0.5).with("runs", 3);
        let line: Value = serde_json::from_str(&figure.line()).unwrap();
        assert_eq!((&line["value"], &line["ratio"], &line["runs"]), (&2.0.into(), &4.0.into(), &3.into()));
        assert!(line.get("reached").is_none());
    }
}
