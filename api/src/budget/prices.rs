//! What models cost. The table is the operator's; the built-in one is what vendors published on a day.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Millionths of a dollar for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// `[prices."claude-sonnet-*"]` of `cocoonbox.toml`, in dollars for a million tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceFile {
    pub input: f64,
    pub output: f64,
    /// Absent: as `input`.
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

/// How many tokens of which sort.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("price `{price}` of model `{model}` is not an amount of dollars")]
pub struct BadPrice {
    model: String,
    price: String,
}

/// The prices of an installation.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    /// The operator's, then the built-in ones; each from the most letters to the fewest.
    patterns: Vec<(String, Price)>,
}

/// List prices as vendors published them in November 2025, in cents for a million tokens: input, output,
/// read from and written to the cache for five minutes. Long contexts, batches, service tiers and hour-long
/// caches have prices of their own, which this does not know.
const BUILT_IN: [(&str, [u64; 4]); 31] = [
    ("claude-opus-4-5*", [500, 2_500, 50, 625]),
    ("claude-opus-4*", [1_500, 7_500, 150, 1_875]),
    ("claude-3-opus*", [1_500, 7_500, 150, 1_875]),
    ("claude-sonnet-4*", [300, 1_500, 30, 375]),
    ("claude-3-7-sonnet*", [300, 1_500, 30, 375]),
    ("claude-3-5-sonnet*", [300, 1_500, 30, 375]),
    ("claude-haiku-4-5*", [100, 500, 10, 125]),
    ("claude-3-5-haiku*", [80, 400, 8, 100]),
    ("claude-3-haiku*", [25, 125, 3, 30]),
    ("gpt-5", [125, 1_000, 13, 125]),
    ("gpt-5-20*", [125, 1_000, 13, 125]),
    ("gpt-5-codex*", [125, 1_000, 13, 125]),
    ("gpt-5-chat*", [125, 1_000, 13, 125]),
    ("gpt-5.1", [125, 1_000, 13, 125]),
    ("gpt-5.1-20*", [125, 1_000, 13, 125]),
    ("gpt-5.1-codex", [125, 1_000, 13, 125]),
    ("gpt-5.1-codex-mini", [25, 200, 3, 25]),
    ("gpt-5.1-chat*", [125, 1_000, 13, 125]),
    ("gpt-5-mini*", [25, 200, 3, 25]),
    ("gpt-5-nano*", [5, 40, 1, 5]),
    ("gpt-5-pro*", [1_500, 12_000, 1_500, 1_500]),
    ("gpt-4.1", [200, 800, 50, 200]),
    ("gpt-4.1-20*", [200, 800, 50, 200]),
    ("gpt-4.1-mini*", [40, 160, 10, 40]),
    ("gpt-4.1-nano*", [10, 40, 3, 10]),
    ("gpt-4o", [250, 1_000, 125, 250]),
    ("gpt-4o-20*", [250, 1_000, 125, 250]),
    ("gpt-4o-mini*", [15, 60, 8, 15]),
    ("o3", [200, 800, 50, 200]),
    ("o3-20*", [200, 800, 50, 200]),
    ("o4-mini*", [110, 440, 28, 110]),
];

/// Millionths of a dollar in a cent.
const CENT_MICROS: u64 = 10_000;
const TOKENS: u128 = 1_000_000;

impl Prices {
    /// Puts the operator's prices before the built-in ones.
    pub fn new(file: &BTreeMap<String, PriceFile>) -> Result<Self, BadPrice> {
        let mut own = Vec::new();
        for (model, price) in file {
            let micros = |dollars: f64| micros(model, dollars);
            let input = micros(price.input)?;
            let price = Price {
                input,
                output: micros(price.output)?,
                cache_read: price.cache_read.map_or(Ok(input), micros)?,
                cache_write: price.cache_write.map_or(Ok(input), micros)?,
            };
            own.push((model.clone(), price));
        }
        let built_in = BUILT_IN.iter().map(|(model, cents)| {
            let [input, output, cache_read, cache_write] = cents.map(|cents| cents * CENT_MICROS);
            let price = Price {
                input,
                output,
                cache_read,
                cache_write,
            };
            ((*model).to_owned(), price)
        });
        let mut built_in: Vec<_> = built_in.collect();
        for patterns in [&mut own, &mut built_in] {
            patterns.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        }
        own.append(&mut built_in);
        Ok(Self { patterns: own })
    }

    /// Returns what a model costs; `None` if nobody said.
    pub fn of(&self, model: &str) -> Option<Price> {
        let found = self
            .patterns
            .iter()
            .find(|(pattern, _)| matches(pattern.as_bytes(), model.as_bytes()));
        found.map(|(_, price)| *price)
    }
}

impl Price {
    /// Returns the cost in millionths of a dollar, rounded up.
    pub(crate) fn cost(self, counts: Counts) -> u64 {
        let parts = [
            (counts.input, self.input),
            (counts.output, self.output),
            (counts.cache_read, self.cache_read),
            (counts.cache_write, self.cache_write),
        ];
        let sum: u128 = parts
            .iter()
            .map(|(tokens, price)| u128::from(*tokens) * u128::from(*price))
            .sum();
        u64::try_from(sum.div_ceil(TOKENS)).unwrap_or(u64::MAX)
    }

    /// Returns the most that a call of this size costs: what it reads may all be written to the cache.
    pub(crate) fn bound(self, input: u64, output: u64) -> u64 {
        let dearest = Self {
            input: self.input.max(self.cache_write),
            ..self
        };
        dearest.cost(Counts {
            input,
            output,
            ..Counts::default()
        })
    }
}

fn micros(model: &str, dollars: f64) -> Result<u64, BadPrice> {
    let text = format!("{dollars:.6}");
    let bad = || BadPrice {
        model: model.to_owned(),
        price: text.clone(),
    };
    text.replace('.', "").parse().map_err(|_| bad())
}

/// Matches a name with a pattern in which `*` stands for anything.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and what it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(toml: &str) -> Result<Prices, BadPrice> {
        Prices::new(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, is) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-pro", false),
            ("claude-*", "claude-", true),
            ("*/claude-*-4*", "a/b/claude-opus-4-5", true),
            ("*a*b*", "xxbxaxx", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                is,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn the_operators_price_counts_and_then_the_most_letters() {
        let prices = prices(
            "['claude-*']\ninput = 1\noutput = 2.5\n['local']\ninput = 0\noutput = 0\ncache_read = 0.0001",
        )
        .unwrap();
        let own = prices.of("claude-opus-4-5").unwrap();
        assert_eq!((own.input, own.output), (1_000_000, 2_500_000));
        assert_eq!((own.cache_read, own.cache_write), (1_000_000, 1_000_000));
        assert_eq!(prices.of("local").unwrap().cache_read, 100);
        assert_eq!(prices.of("gpt-5-mini").unwrap().output, 2_000_000);
        assert_eq!(
            prices.of("gpt-5-pro-2025-10-06").unwrap().output,
            120_000_000
        );
        assert_eq!(prices.of("nobody's"), None);
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for bad in ["-1", "nan", "inf"] {
            let error = prices(&format!("['m']\ninput = {bad}\noutput = 1")).unwrap_err();
            assert!(error.to_string().contains("model `m`"), "{error}");
        }
        assert!(toml::from_str::<BTreeMap<String, PriceFile>>("['m']\ninput = 1").is_err());
        assert!(toml::from_str::<PriceFile>("input = 1\noutput = 1\ncached = 1").is_err());
    }

    #[test]
    fn cost_is_rounded_up_and_bounded_from_above() {
        let price = prices("").unwrap().of("claude-sonnet-4-5").unwrap();
        let counts = Counts {
            input: 1_000,
            output: 100,
            cache_read: 10_000,
            cache_write: 1_000,
        };
        assert_eq!(price.cost(counts), 3_000 + 1_500 + 3_000 + 3_750);
        let one = Counts {
            cache_read: 1,
            ..Counts::default()
        };
        assert_eq!(price.cost(one), 1);
        assert!(price.bound(12_000, 100) >= price.cost(counts));
        let huge = Counts {
            output: u64::MAX,
            ..Counts::default()
        };
        assert_eq!(price.cost(huge), u64::MAX);
    }
}
