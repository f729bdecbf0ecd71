//! Whether two installations hold the same, read from both and checked link by link.

use std::collections::BTreeMap;

use cocoonbox_events::{
    LogId, LogInfo, Recorded, Store, chain::Verifier, limits::PAGE_EVENTS_MAX, replica::End,
};

use super::{Copied, CopyError, PAGE, own_events};
use crate::Installation;

/// Compares logs with all their events and checkpoints, keys and tokens. `progress` is told the events that were
/// compared.
pub async fn compare(
    from: &Installation,
    to: &Installation,
    mut progress: impl FnMut(u64),
) -> Result<Copied, CopyError> {
    let (ours, theirs) = (by_id(&*from.store), by_id(&*to.store));
    if let Some(log) = theirs.keys().find(|log| !ours.contains_key(log)) {
        return Err(CopyError::OtherInstallation { log: *log });
    }
    let mut compared = Copied {
        logs: ours.len(),
        ..Copied::default()
    };
    for (id, info) in &ours {
        let other = theirs.get(id);
        if !other.is_some_and(|other| is_same(info, other)) {
            return Err(differs(format!("log {id}")));
        }
        let before = compared.events;
        events(from, to, info, |done| progress(before + done)).await?;
        compared.events += own_events(info);
        compared.checkpoints += checkpoints(from, to, *id).await?;
    }
    let mut after = None;
    loop {
        let page = from.keys.sealed_owners(after.as_deref(), PAGE).await?;
        if page != to.keys.sealed_owners(after.as_deref(), PAGE).await? {
            return Err(differs("an owner's key".into()));
        }
        let Some(last) = page.last() else { break };
        after = Some(last.owner.clone());
        compared.owners += page.len();
    }
    let signers = from.keys.sealed_signers().await?;
    if signers != to.keys.sealed_signers().await? {
        return Err(differs("the signing keys".into()));
    }
    compared.signing_keys = signers.len();
    let mut after = String::new();
    loop {
        let page = from.tokens.list(&after, PAGE).await?;
        if page != to.tokens.list(&after, PAGE).await? {
            return Err(differs(format!("a token behind `{after}`")));
        }
        let Some(last) = page.last() else { break };
        after.clone_from(&last.owner.token_id);
        compared.tokens += page.len();
    }
    Ok(compared)
}

fn by_id(store: &dyn Store) -> BTreeMap<LogId, LogInfo> {
    store.logs().into_iter().map(|log| (log.id, log)).collect()
}

fn is_same(one: &LogInfo, other: &LogInfo) -> bool {
    one.kind == other.kind
        && one.owner == other.owner
        && one.parent == other.parent
        && one.moved_to == other.moved_to
        && one.tail == other.tail
}

async fn events(
    from: &Installation,
    to: &Installation,
    info: &LogInfo,
    mut progress: impl FnMut(u64),
) -> Result<(), CopyError> {
    let log = info.id;
    let start = End::genesis(log, info.parent);
    let mut verifier = Verifier::resume(start.pos, start.chain, start.recorded_us);
    let mut ours: Vec<Recorded> = Vec::new();
    let mut theirs: Vec<Recorded> = Vec::new();
    loop {
        // Pages of two stores are not cut at the same places.
        if ours.is_empty() {
            let page = from.store.read(log, verifier.pos(), PAGE_EVENTS_MAX).await;
            ours = page
                .map_err(|source| CopyError::Read { log, source })?
                .events;
        }
        if theirs.is_empty() {
            let page = to.store.read(log, verifier.pos(), PAGE_EVENTS_MAX).await;
            theirs = page
                .map_err(|source| CopyError::ReadBack { log, source })?
                .events;
        }
        let common = ours.len().min(theirs.len());
        if common == 0 {
            break;
        }
        for (one, other) in ours.drain(..common).zip(theirs.drain(..common)) {
            let checked = verifier.check(&one);
            checked.map_err(|source| CopyError::Broken { log, source })?;
            if one != other {
                return Err(CopyError::OtherHistory { log, pos: one.pos });
            }
        }
        progress(verifier.pos() - start.pos);
    }
    if ours.is_empty() && theirs.is_empty() && verifier.pos() == info.tail.pos {
        Ok(())
    } else {
        Err(CopyError::OtherHistory {
            log,
            pos: verifier.pos() + 1,
        })
    }
}

async fn checkpoints(from: &Installation, to: &Installation, log: LogId) -> Result<u64, CopyError> {
    let (mut after, mut compared) = (0, 0);
    loop {
        let ours = from.store.checkpoints(log, after, PAGE).await;
        let ours = ours.map_err(|source| CopyError::Read { log, source })?;
        let theirs = to.store.checkpoints(log, after, PAGE).await;
        let theirs = theirs.map_err(|source| CopyError::ReadBack { log, source })?;
        if ours != theirs {
            return Err(differs(format!("a checkpoint of log {log} behind {after}")));
        }
        let Some(last) = ours.last() else {
            return Ok(compared);
        };
        (after, compared) = (last.size, compared + ours.len() as u64);
    }
}

fn differs(what: String) -> CopyError {
    CopyError::Differs { what }
}
