//! Random numbers that can be drawn again: the seed is printed, and taken from the environment.

/// SplitMix64: small, and the same everywhere.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// Takes the seed from `COCOONBOX_E2E_SEED`, else draws one, and prints it (shown when a test fails).
    pub fn seeded(test: &str) -> Self {
        let given = std::env::var("COCOONBOX_E2E_SEED").ok();
        let seed = given.map_or_else(
            || uuid::Uuid::new_v4().as_u64_pair().0,
            |text| text.parse().expect("COCOONBOX_E2E_SEED is a number"),
        );
        eprintln!("{test}: again with COCOONBOX_E2E_SEED={seed}");
        Self(seed)
    }

    /// Takes any seed, where nothing has to be drawn again.
    pub(crate) fn drawn() -> Self {
        Self(uuid::Uuid::new_v4().as_u64_pair().0)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws from `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.number() % below.max(1)
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend(self.number().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
