//! The mark of a call that another api process has passed on: it is not passed on again.
//!
//! A client cannot make it: it is keyed, with a key that all processes of an installation derive and nobody
//! else has, and bound to the box and to a minute.

use std::sync::Arc;

use cocoonbox_events::Clock;
use http::{HeaderMap, HeaderName, HeaderValue, header::InvalidHeaderValue};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

pub(super) const HEADER: HeaderName = HeaderName::from_static("x-cocoonbox-hop");
/// From the mark to its check, with what two hosts' clocks may differ by.
const LIFETIME_S: i64 = 60;

/// Makes and knows marks.
pub struct Hop {
    key: Zeroizing<[u8; 32]>,
    clock: Arc<dyn Clock>,
}

impl Hop {
    pub fn new(key: Zeroizing<[u8; 32]>, clock: Arc<dyn Clock>) -> Self {
        Self { key, clock }
    }

    /// `<seconds since the epoch>.<keyed hash, hex>`
    pub(super) fn mark(&self, box_id: &str) -> Result<HeaderValue, InvalidHeaderValue> {
        let at = self.now_s();
        HeaderValue::from_str(&format!("{at}.{}", hex::encode(self.hash(box_id, at))))
    }

    pub(super) fn is_marked(&self, headers: &HeaderMap, box_id: &str) -> bool {
        let value = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let Some((at, hash)) = value.and_then(|value| value.split_once('.')) else {
            return false;
        };
        let Ok(at) = at.parse::<i64>() else {
            return false;
        };
        let mut sent = [0; 32];
        let is_ours = hex::decode_to_slice(hash, &mut sent).is_ok()
            && bool::from(sent.ct_eq(&self.hash(box_id, at)));
        is_ours && self.now_s().saturating_sub(at).abs() <= LIFETIME_S
    }

    fn hash(&self, box_id: &str, at: i64) -> [u8; 32] {
        *blake3::keyed_hash(&self.key, format!("{at}|{box_id}").as_bytes()).as_bytes()
    }

    fn now_s(&self) -> i64 {
        self.clock.now_us() / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use cocoonbox_events::ManualClock;

    use super::*;

    #[test]
    fn a_mark_is_for_one_box_and_a_minute_and_cannot_be_made_up() {
        let clock = Arc::new(ManualClock::at(1_000_000_000_000));
        let hop = Hop::new(Zeroizing::new([1; 32]), clock.clone());
        let marked = |value: HeaderValue, box_id| {
            let headers = HeaderMap::from_iter([(HEADER, value)]);
            hop.is_marked(&headers, box_id)
        };
        let mark = hop.mark("b1").unwrap();
        assert!(marked(mark.clone(), "b1"));
        assert!(!marked(mark.clone(), "b2"));
        let other = Hop::new(Zeroizing::new([2; 32]), clock.clone());
        assert!(!marked(other.mark("b1").unwrap(), "b1"));
        for forged in [
            "",
            "1",
            "x.y",
            "1000000.00",
            &format!("1000000.{}", "0".repeat(64)),
        ] {
            assert!(
                !marked(HeaderValue::from_str(forged).unwrap(), "b1"),
                "{forged}"
            );
        }
        clock.set(1_000_061_000_000);
        assert!(!marked(mark, "b1"));
    }
}
