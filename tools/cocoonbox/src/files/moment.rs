//! Moments as people name them, for the api.

use cocoonbox_events::OffsetKey;
use cocoonbox_proto::control::v1::{Moment, moment as wire};

use crate::{failure::Failure, replay::Calendar};

/// Of a snapshot's id; less is more likely a time.
const ID_DIGITS: std::ops::RangeInclusive<usize> = 4..=32;

/// What stands before the id of a tool call.
const BEFORE: &str = "before:";

/// Reads `latest`, an offset key, the beginning of a snapshot's id, `before:` and a tool call's id, or a time.
pub fn moment(text: &str) -> Result<Option<Moment>, Failure> {
    if text == "latest" {
        return Ok(None);
    }
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let moment = if text.parse::<OffsetKey>().is_ok() {
        wire::Moment::OffsetKey(text.to_owned())
    } else if ID_DIGITS.contains(&text.len()) && text.bytes().all(is_hex) {
        wire::Moment::SnapshotId(text.to_owned())
    } else if let Some(id) = text.strip_prefix(BEFORE) {
        wire::Moment::BeforeToolCall(id.to_owned())
    } else {
        let at = Calendar::here().time(text).map_err(|_| {
            Failure::usage(format!("`{text}` is no moment")).advise(
                "a moment is `latest`, a snapshot's id (`cocoonbox snapshots`), an offset key, `before:` and a tool \
                 call's id, or a time like 10m, 9:00, 'yesterday 9:00'",
            )
        })?;
        wire::Moment::AtMs(at.as_millisecond())
    };
    Ok(Some(Moment {
        moment: Some(moment),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_apart() {
        let read = |text: &str| moment(text).unwrap().and_then(|at| at.moment);
        assert_eq!(read("latest"), None);
        let id = "0000019a";
        assert_eq!(read(id), Some(wire::Moment::SnapshotId(id.into())));
        let key = "2cd459cd125c8691bceca487c555df90.0000000000000127.fd31ec97";
        assert_eq!(read(key), Some(wire::Moment::OffsetKey(key.into())));
        let call = read("before:toolu_1");
        assert_eq!(call, Some(wire::Moment::BeforeToolCall("toolu_1".into())));
        let time = "2026-11-29T09:00:00Z";
        assert_eq!(read(time), Some(wire::Moment::AtMs(1_795_942_800_000)));
        assert!(matches!(read("10m"), Some(wire::Moment::AtMs(_))));
        assert!(moment("whenever").is_err());
    }
}
