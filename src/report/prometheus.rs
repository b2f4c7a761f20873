//! Prometheus' text format.

use std::collections::HashMap;

/// The name of a metric, its type, and what it is.
pub type Family = (&'static str, &'static str, &'static str);

/// The series of one more key would make the text grow without end: the keys after these are counted together.
pub const MOST_KEYS: usize = 200;
const OTHER_KEYS: &str = "(other)";

/// Series with their values, in the order in which they came up.
#[derive(Default)]
pub struct Exposition {
    series: Vec<(String, f64)>,
    places: HashMap<String, usize>,
}

impl Exposition {
    pub fn of(series: Vec<(String, f64)>) -> Exposition {
        let places = series.iter().enumerate().map(|(place, (series, _))| (series.clone(), place)).collect();
        Exposition { series, places }
    }

    /// The value of a series, `initial` in the beginning. `key` is a label of [`Exposition::key`].
    pub fn series(&mut self, name: &str, key: &str, labels: &[(&str, &str)], initial: f64) -> &mut f64 {
        let labels: String = labels.iter().map(|(label, value)| format!(",{label}=\"{value}\"")).collect();
        let series = format!("{name}{{key=\"{key}\"{labels}}}");
        let place = *self.places.entry(series).or_insert_with_key(|series| {
            self.series.push((series.clone(), initial));
            self.series.len() - 1
        });
        &mut self.series[place].1
    }

    /// The label of a key, as it is written. Each key has a series of `family`, and that has no other labels.
    pub fn key(&self, key: &str, family: &str) -> String {
        let key = key.replace('\\', "\\\\").replace('"', "\\\"");
        if self.places.contains_key(&format!("{family}{{key=\"{key}\"}}")) {
            return key;
        }
        let of_family = |(series, _): &&(String, f64)| {
            series.strip_prefix(family).is_some_and(|rest| rest.starts_with('{'))
        };
        if self.series.iter().filter(of_family).count() < MOST_KEYS { key } else { OTHER_KEYS.to_owned() }
    }

    /// All series of these families.
    pub fn text(&self, families: &[Family]) -> String {
        let mut text = String::new();
        for (name, kind, help) in families {
            text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            let is_of_it = |series: &str| {
                let of = series.split('{').next().unwrap_or_default();
                of.strip_prefix(name).is_some_and(|part| matches!(part, "" | "_bucket" | "_sum" | "_count"))
            };
            for (series, value) in self.series.iter().filter(|(series, _)| is_of_it(series)) {
                text += &format!("{series} {value}\n");
            }
        }
        text
    }
}
