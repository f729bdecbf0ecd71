//! Runs one aggregate and checks what holds for each of them.

use std::fmt::Debug;

use cocoonbox_events::{Aggregate, Payload};

/// An aggregate with its history.
pub(crate) struct Machine<A: Aggregate> {
    pub(crate) state: A,
    pub(crate) history: Vec<A::Event>,
}

impl<A> Machine<A>
where
    A: Aggregate + Debug + PartialEq,
    A::Event: Debug + PartialEq,
    A::Rejection: PartialEq,
{
    pub(crate) fn new() -> Self {
        Self {
            state: A::default(),
            history: Vec::new(),
        }
    }

    /// Sends a command; what it decides is taken in.
    ///
    /// Deciding again gives the same, deciders emit only what can follow, and every event survives the
    /// registry's encoding.
    pub(crate) fn send(&mut self, command: &A::Command) -> Result<Vec<A::Event>, A::Rejection> {
        let events = self.state.decide(command)?;
        assert_eq!(
            self.state.decide(command).as_ref(),
            Ok(&events),
            "decided otherwise"
        );
        for event in &events {
            self.take(event);
        }
        Ok(events)
    }

    pub(crate) fn take(&mut self, event: &A::Event) {
        let payload: Payload = event.clone().into();
        let (kind, bytes) = payload.encode();
        let decoded = Payload::decode(kind.number(), kind.version(), &bytes).unwrap();
        let event = A::pick(decoded).unwrap();
        self.state = self.state.clone().evolve(&event).unwrap();
        self.history.push(event);
    }

    /// The state is nothing but the fold over the history.
    pub(crate) fn check_fold(&self) {
        let mut state = A::default();
        for event in &self.history {
            state = state.evolve(event).unwrap();
        }
        assert_eq!(state, self.state);
    }
}
