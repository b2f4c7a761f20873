//! The numbers of permits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The numbers of the permits that one holder has, the lowest first; empty where the store gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Permits(Vec<u32>);

impl Permits {
    pub fn new(mut numbers: Vec<u32>) -> Permits {
        numbers.sort_unstable();
        Permits(numbers)
    }

    pub fn numbers(&self) -> &[u32] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As `taskset --cpu-list` reads them: `0,1,5`.
impl fmt::Display for Permits {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for Permits {
    type Err = ();

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Permits, ()> {
        let numbers: Result<Vec<u32>, _> =
            text.split(',').filter(|number| !number.is_empty()).map(str::parse).collect();
        numbers.map(Permits::new).map_err(|_| ())
    }
}

#[test]
fn the_numbers_are_a_list() {
    let read = |text: &str| text.parse().map(|permits: Permits| permits.to_string());
    assert_eq!(
        ["", "3", "0,1,5", "5,0"].map(read),
        ["", "3", "0,1,5", "0,5"].map(|text| Ok(text.to_owned()))
    );
    assert_eq!(["x", "1;2", "-1", "4294967296"].map(read), [Err(()), Err(()), Err(()), Err(())]);
}
