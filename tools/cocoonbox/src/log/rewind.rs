//! Going on in new logs after a store was put back.

use cocoonbox_events::{
    Append, AppendError, CommandId, Expect, LogEvent, LogId, LogInfo, LogKind, NewEvent, NewLog,
    Parent, Store, StreamName,
};
use cocoonbox_installation::Purpose;
use cocoonbox_proto::log::v1::{Actor, LogRewound, actor};
use serde_json::json;

use super::{Claim, address, master_folder, open};
use crate::{
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
};

/// Stands in every log that is rewound, and is read by people.
const REASON_BYTES_MAX: usize = 1_000;
const STREAM: &str = "log/rewinds";

/// A log that went on as another one.
struct Rewound {
    old: LogId,
    new: LogId,
    common: u64,
}

pub(super) async fn rewind(
    ctx: &mut Context,
    store: &str,
    only: &[LogId],
    reason: &str,
) -> Result<Exit, Failure> {
    if reason.is_empty() || reason.len() > REASON_BYTES_MAX {
        let message = format!("a reason has 1 to {REASON_BYTES_MAX} bytes");
        return Err(Failure::usage(message));
    }
    let data = ctx.data_dir();
    let address = address(store, &data)?;
    let keys = master_folder(&address, &data);
    let installation = open(&address, &keys, Purpose::Use).await?;
    let claim = Claim::on(&installation, &address).await?;
    let claims = [claim];
    let work = async {
        // A machine's host remembers the highest fence that it has seen, and refuses who comes with less.
        let raised = installation.leases.raise(&claims[0].us).await;
        raised.map_err(|error| Failure::local("raising the fences of leases", &error))?;
        all(&*installation.store, only, reason).await
    };
    let rewound = tokio::select! {
        rewound = work => rewound,
        lost = Claim::keep(&claims) => Err(lost),
    };
    for claim in claims {
        claim.leave().await;
    }
    installation.close().await;
    for Rewound { old, new, common } in rewound? {
        let value = json!({"old": old.to_string(), "new": new.to_string(), "common": common});
        let line = format!("{old} goes on as {new} behind position {common}");
        ctx.out.answer(&value, line)?;
    }
    Ok(Exit::Ok)
}

async fn all(store: &dyn Store, only: &[LogId], reason: &str) -> Result<Vec<Rewound>, Failure> {
    for id in only {
        let info = store
            .info(*id)
            .map_err(|error| Failure::new(Exit::NotFound, chain(&error)))?;
        if info.kind == LogKind::Box {
            let message = format!("{id} is the log of a box, which goes on by itself");
            return Err(Failure::usage(message));
        }
        if let Some(to) = info.moved_to {
            let message = format!("{id} was rewound before and goes on as {to}");
            return Err(Failure::usage(message));
        }
    }
    let is_meant = |log: &LogInfo| {
        log.kind != LogKind::Box
            && log.moved_to.is_none()
            && (only.is_empty() || only.contains(&log.id))
    };
    let mut rewound = Vec::new();
    for log in store.logs().into_iter().filter(is_meant) {
        let done = one(store, &log, reason).await;
        rewound.push(done.map_err(|error| Failure::new(Exit::Failure, chain(&error)))?);
    }
    Ok(rewound)
}

/// Lets one log go on in a branch, whose first event says why. A branch that has nothing yet is one that a
/// killed process has opened: it only lacks the reason.
async fn one(store: &dyn Store, log: &LogInfo, reason: &str) -> Result<Rewound, AppendError> {
    let tail = log.tail;
    let begun = log.parent.filter(|parent| parent.pos == tail.pos);
    let (old, new) = match begun {
        Some(parent) => (parent.log, log.id),
        None => {
            let seed = [log.id.as_bytes().as_slice(), &tail.pos.to_le_bytes()].concat();
            let new = LogId(CommandId::derive(&seed, "rewound log").0);
            let parent = Parent {
                log: log.id,
                pos: tail.pos,
                chain: tail.chain,
            };
            let branch = NewLog {
                id: new,
                kind: log.kind,
                owner: log.owner.clone(),
                parent: Some(parent),
            };
            store.rewind(branch).await?;
            (log.id, new)
        }
    };
    let stream = StreamName::new(STREAM).expect("a short name fits");
    let said = LogRewound {
        old_log: old.as_bytes().to_vec(),
        common: tail.pos,
        reason: reason.to_owned(),
    };
    let append = Append {
        command: CommandId::derive(new.as_bytes(), "log.rewound"),
        digest: [0; 32],
        expect: vec![(stream.clone(), Expect::Any)],
        events: vec![NewEvent {
            stream,
            payload: LogEvent::Rewound(said).into(),
        }],
        actor: Actor {
            kind: actor::Kind::Host.into(),
            id: String::new(),
        },
        cause: None,
    };
    store.append(new, append).await?;
    Ok(Rewound {
        old,
        new,
        common: tail.pos,
    })
}
