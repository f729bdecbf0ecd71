//! Sealing: XChaCha20-Poly1305 with a random nonce. What is sealed is bound to what it is and what it is
//! called, so no object can stand in for another.

use chacha20poly1305::{AeadInOut as _, Tag, XNonce};

use crate::{
    error::{Damage, Error},
    key::Keys,
};

/// Room to leave before what is sealed in place.
pub(crate) const NONCE: usize = 24;
const TAG: usize = 16;
/// How much longer sealed bytes are.
pub const OVERHEAD: usize = NONCE + TAG;

/// What is sealed; the first byte of the associated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sealed {
    Format = 0,
    DataFrame = 1,
    TreeFrame = 2,
    Directory = 3,
    IndexTrees = 4,
    IndexData = 5,
    Snapshot = 6,
    Generation = 7,
    Cache = 8,
}

/// Appends `plain` sealed to `out`: nonce, cipher text, tag.
pub(crate) fn seal(
    keys: &Keys,
    what: Sealed,
    name: &[u8],
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.reserve(plain.len() + OVERHEAD);
    let start = out.len();
    out.extend_from_slice(&[0; NONCE]);
    out.extend_from_slice(plain);
    seal_from(keys, what, name, out, start)
}

/// Seals what stands in `out` from `start` on, where room for the nonce was left.
pub(crate) fn seal_from(
    keys: &Keys,
    what: Sealed,
    name: &[u8],
    out: &mut Vec<u8>,
    start: usize,
) -> Result<(), Error> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(|_| Error::Randomness)?;
    out[start..start + NONCE].copy_from_slice(&nonce);
    let tag = keys
        .cipher
        .encrypt_inout_detached(
            &XNonce::from(nonce),
            &associated(what, name),
            (&mut out[start + NONCE..]).into(),
        )
        .expect("no part of a capsule is as long as a cipher text may be");
    out.extend_from_slice(&tag);
    Ok(())
}

/// Opens what [`seal`] made, in place, and gives the plain bytes' range.
pub(crate) fn open<'a>(
    keys: &Keys,
    what: Sealed,
    name: &[u8],
    sealed: &'a mut [u8],
) -> Result<&'a mut [u8], Damage> {
    let (nonce, rest) = sealed.split_at_mut_checked(NONCE).ok_or(Damage::Short)?;
    let length = rest.len().checked_sub(TAG).ok_or(Damage::Short)?;
    let (text, tag) = rest.split_at_mut(length);
    let nonce: [u8; NONCE] = (&*nonce).try_into().map_err(|_| Damage::Short)?;
    let tag: [u8; TAG] = (&*tag).try_into().map_err(|_| Damage::Short)?;
    keys.cipher
        .decrypt_inout_detached(
            &XNonce::from(nonce),
            &associated(what, name),
            (&mut *text).into(),
            &Tag::from(tag),
        )
        .map_err(|_| Damage::Seal)?;
    Ok(text)
}

fn associated(what: Sealed, name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + name.len());
    out.push(what as u8);
    out.extend_from_slice(name);
    out
}
