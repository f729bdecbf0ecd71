//! Checking packs.

use crate::{
    capsule::Capsule,
    error::{Damage, Error},
    frame::Opener,
    pack::{Directory, PackedFrame},
};

use super::{BadChunks, Checked};

/// Whether a pack has the directory that the index says, in its length and its seal.
pub(super) fn look(
    capsule: &Capsule,
    listed: &Directory,
    size: u64,
) -> Result<Result<(), String>, Error> {
    if size < listed.frames_end() {
        let damage = Damage::Length {
            expected: listed.frames_end(),
            found: size,
        };
        return Ok(Err(damage.to_string()));
    }
    match Directory::read(capsule.keys(), capsule.store(), listed.kind, listed.pack) {
        Ok(own) if own == *listed => Ok(Ok(())),
        Ok(_) => Ok(Err("it holds other chunks than the index says".into())),
        Err(Error::Damaged { damage, .. }) => Ok(Err(damage.to_string())),
        Err(Error::Store(error)) if !error.is_retryable() => Ok(Err(Damage::Short.to_string())),
        Err(error) => Err(error),
    }
}

/// Reads a pack frame by frame and compares every chunk with its id.
pub(super) fn read(
    capsule: &Capsule,
    listed: &Directory,
    checked: &mut Checked,
    bad: &mut BadChunks,
) -> Result<Result<(), String>, Error> {
    let bytes = capsule.store().get(&listed.object())?;
    checked.bytes_read += bytes.len() as u64;
    let mut why = look(capsule, listed, bytes.len() as u64)?;
    let mut opener = Opener::new()?;
    for frame in &listed.frames {
        for (member, damage) in frame_damage(capsule, listed, frame, &bytes, &mut opener) {
            let id = frame.members[member].id;
            bad.insert((listed.kind, id), damage.to_string());
            why = why.and(Err(format!("frame at {}: {damage}", frame.offset)));
        }
    }
    Ok(why)
}

/// Reads a pack and fails with the first chunk that cannot be had.
pub(super) fn sound(capsule: &Capsule, listed: &Directory) -> Result<(), Error> {
    let object = listed.object();
    let bytes = capsule.store().get(&object)?;
    let mut opener = Opener::new()?;
    for frame in &listed.frames {
        let damage = frame_damage(capsule, listed, frame, &bytes, &mut opener);
        if let Some((_, damage)) = damage.into_iter().next() {
            return Err(Error::damaged(object, damage));
        }
    }
    Ok(())
}

/// The chunks of a frame that cannot be had, with the reason.
fn frame_damage(
    capsule: &Capsule,
    listed: &Directory,
    frame: &PackedFrame,
    bytes: &[u8],
    opener: &mut Opener,
) -> Vec<(usize, Damage)> {
    let all = |damage: Damage| {
        (0..frame.members.len())
            .map(|member| (member, damage.clone()))
            .collect()
    };
    let start = usize::try_from(frame.offset).unwrap_or(usize::MAX);
    let Some(sealed) = start
        .checked_add(frame.sealed_bytes as usize)
        .and_then(|end| bytes.get(start..end))
    else {
        return all(Damage::Short);
    };
    let keys = capsule.keys();
    let name = keys.frame_id(frame.members.iter().map(|member| member.id));
    let length = frame
        .members
        .iter()
        .map(|member| member.length as usize)
        .sum();
    let plain = match opener.open(keys, listed.kind, &name, sealed.to_vec(), length) {
        Ok(plain) => plain,
        Err(damage) => return all(damage),
    };
    let mut at = 0;
    let mut bad = Vec::new();
    for (number, member) in frame.members.iter().enumerate() {
        let end = at + member.length as usize;
        if keys.chunk_id(listed.kind, &plain[at..end]) != member.id {
            bad.push((number, Damage::Content(member.id.to_string())));
        }
        at = end;
    }
    bad
}
