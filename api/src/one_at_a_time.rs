//! Calls of one user, one after the other.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Has those calls of a user wait for each other that decide on how much the user has. In this process only.
#[derive(Debug, Default)]
pub struct OneAtATime(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl OneAtATime {
    /// The lock of a user. It is forgotten when nobody has it.
    pub fn of(&self, user: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(user.to_owned()).or_default().clone()
    }
}
