//! Reads a part of what is stored, and says what is lost.

use std::sync::atomic::AtomicBool;

use cocoonbox_capsule::{check, sweep};
use cocoonbox_commands::capsule::SLICES;
use cocoonbox_proto::log::v1::{CapsuleChecked, CapsuleDamagedSnapshot};

use super::{Place, PlaceError};

/// What an event names of each; it says how many there are.
const NAMED_MAX: usize = 100;
const PATHS_MAX: usize = 20;
/// Of all paths in an event: a few may be long, or many short.
const PATH_BYTES_MAX: usize = 64 << 10;

/// Reads every byte of one part of all packs, and the directories of the others. Packs that are damaged are given up:
/// the next save stores again what boxes still have of them. Blocks.
pub(super) fn check(
    place: &Place,
    user: &str,
    slice: u32,
    cancelled: &AtomicBool,
) -> Result<CapsuleChecked, PlaceError> {
    let capsule = place.open(user)?;
    let turn = |number: u32| u8::try_from(number).unwrap_or_default();
    let options = check::Options {
        cancelled: Some(cancelled),
        reads_data: true,
        slice: Some((turn(slice), turn(SLICES))),
        progress: &mut |_, _, _| {},
    };
    let found = check::check(&capsule, options)?;
    if !found.bad_packs.is_empty() {
        sweep::give_up(&capsule, &found.bad_packs)?;
    }
    let mut bytes_left = PATH_BYTES_MAX;
    let mut snapshots = Vec::new();
    for (id, lines) in found.files.iter().take(NAMED_MAX) {
        let mut paths = Vec::new();
        for line in lines.list.iter().take(PATHS_MAX) {
            if line.path.len() > bytes_left {
                break;
            }
            bytes_left -= line.path.len();
            paths.push(line.path.clone());
        }
        snapshots.push(CapsuleDamagedSnapshot {
            snapshot_id: id.to_string(),
            files: lines.count,
            paths,
        });
    }
    Ok(CapsuleChecked {
        slice,
        of: SLICES,
        packs: found.packs,
        bytes: found.bytes_read,
        ended_ms: 0,
        objects: found.bad.keys().take(NAMED_MAX).cloned().collect(),
        damaged: u64::try_from(found.bad.len()).unwrap_or(u64::MAX),
        snapshots,
    })
}
