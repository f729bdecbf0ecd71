//! Following a log, over any number of breaks.

use cocoonbox_events::OffsetKey;
use cocoonbox_proto::{
    agent::v1::EventsRequest,
    control::v1::AccountEventsRequest,
    log::v1::{Event, EventOrHeartbeat, event_or_heartbeat::Item},
};
use prost::Message;
use tonic::{Status, Streaming};

use crate::{
    User, is_broken, reason,
    until::{STEP, soon},
};

/// A log seen by a client: a box's, or the user's own.
#[derive(Debug)]
pub struct Events {
    user: User,
    /// `None`: the account log.
    box_id: Option<String>,
    streams: Vec<String>,
    stream: Option<Streaming<EventOrHeartbeat>>,
    /// Where it goes on after a break.
    pub from: String,
    /// How often it was resumed.
    pub breaks: usize,
}

impl Events {
    pub fn of_box(user: &User, box_id: &str, from: &str, streams: &[&str]) -> Self {
        Self::new(user, Some(box_id.to_owned()), from, streams)
    }

    pub fn of_account(user: &User, from: &str, streams: &[&str]) -> Self {
        Self::new(user, None, from, streams)
    }

    /// Returns the next event. Heartbeats only move [`Self::from`].
    pub async fn next(&mut self) -> Event {
        soon("the next event", async {
            loop {
                let item = match self.item().await {
                    Ok(item) => item,
                    // A key that a box has given out may be ahead of the api's copy while the box is
                    // silent.
                    Err(status) if is_broken(&status) || reason(&status) == "AHEAD_OF_TAIL" => {
                        self.stream = None;
                        self.breaks += 1;
                        tokio::time::sleep(STEP).await;
                        continue;
                    }
                    Err(status) => panic!("events from `{}`: {status:?}", self.from),
                };
                if let Some(Item::Event(event)) = item.item {
                    return event;
                }
            }
        })
        .await
    }

    /// Returns the next event of a kind; those before it are passed over.
    pub async fn next_of(&mut self, kind: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.kind == kind {
                return event;
            }
        }
    }

    /// Returns the next event or heartbeat, or how the stream broke. A clean end of a stream that
    /// follows is a fault.
    pub async fn item(&mut self) -> Result<EventOrHeartbeat, Status> {
        if self.stream.is_none() {
            self.stream = Some(self.open(true).await?);
        }
        let stream = self.stream.as_mut().expect("opened above");
        let item = stream
            .message()
            .await?
            .expect("a stream that follows does not end by itself");
        let key = match &item.item {
            Some(Item::Event(event)) => &event.offset_key,
            Some(Item::Heartbeat(heartbeat)) => &heartbeat.offset_key,
            None => panic!("neither event nor heartbeat"),
        };
        assert_eq!(
            key, &item.offset_key,
            "the copy of the key differs from the key"
        );
        self.from.clone_from(key);
        Ok(item)
    }

    /// Reads to the tail and no further.
    pub async fn all(&self) -> Result<Vec<Event>, Status> {
        let mut stream = self.open(false).await?;
        let mut events = Vec::new();
        while let Some(item) = stream.message().await? {
            if let Some(Item::Event(event)) = item.item {
                events.push(event);
            }
        }
        Ok(events)
    }

    async fn open(&self, follow: bool) -> Result<Streaming<EventOrHeartbeat>, Status> {
        let (from_offset, streams) = (self.from.clone(), self.streams.clone());
        let answer = match &self.box_id {
            Some(id) => {
                let request = EventsRequest {
                    from_offset,
                    streams,
                    no_follow: !follow,
                };
                self.user.session(id).events(request).await?
            }
            None => {
                let request = AccountEventsRequest {
                    from_offset,
                    streams,
                    no_follow: !follow,
                };
                self.user.users().events(request).await?
            }
        };
        Ok(answer.into_inner())
    }

    fn new(user: &User, box_id: Option<String>, from: &str, streams: &[&str]) -> Self {
        Self {
            user: user.clone(),
            box_id,
            streams: streams.iter().map(|stream| (*stream).to_owned()).collect(),
            stream: None,
            from: from.to_owned(),
            breaks: 0,
        }
    }
}

/// Reads an event's payload, which must be of the kind `kind`.
pub fn payload<M: Message + Default>(event: &Event, kind: &str) -> M {
    assert_eq!(event.kind, kind);
    M::decode(event.payload.as_slice()).unwrap_or_else(|_| panic!("payload of {event:?}"))
}

/// Reads an event's payload if the event is of the kind `kind`.
pub fn payload_if<M: Message + Default>(event: &Event, kind: &str) -> Option<M> {
    (event.kind == kind).then(|| payload(event, kind))
}

/// Panics unless positions go up without repeats.
pub fn assert_in_order(events: &[Event]) {
    let keys: Vec<OffsetKey> = events
        .iter()
        .map(|event| event.offset_key.parse().expect("an offset key"))
        .collect();
    for pair in keys.windows(2) {
        assert!(pair[0].pos < pair[1].pos, "{} after {}", pair[1], pair[0]);
    }
}
