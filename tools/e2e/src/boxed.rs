//! A box of a user, from both sides: as its owner sees it, and as the host does.

use std::path::PathBuf;

use cocoonbox_proto::{
    agent::v1::{TranscriptItem, TranscriptRequest},
    log::v1::Event,
};

use crate::{
    Events, Installation, User,
    process::{Process, in_cgroups},
};

/// A box.
#[derive(Clone, Debug)]
pub struct TheBox {
    pub user: User,
    pub id: String,
    disks: PathBuf,
}

impl TheBox {
    /// Ensures the box `name` of a user and returns it once it runs.
    pub async fn up(installation: &Installation, user: &User, name: &str) -> Self {
        let id = user.ensure(name).await;
        Self::of(installation, user, id)
    }

    /// The box with this id, which runs.
    pub fn of(installation: &Installation, user: &User, id: String) -> Self {
        let disks = installation.data().join("boxes").join(&id);
        Self {
            user: user.clone(),
            id,
            disks,
        }
    }

    /// The same box over another connection.
    pub fn over(&self, channel: tonic::transport::Channel) -> Self {
        Self {
            user: self.user.over(channel),
            ..self.clone()
        }
    }

    pub async fn hibernate(&self) {
        self.user.hibernate(&self.id).await;
    }

    /// Wakes it and returns once it runs.
    pub async fn wake(&self) {
        let request = cocoonbox_proto::control::v1::EnsureRequest {
            box_id: self.id.clone(),
            ..Default::default()
        };
        let (_, ended) = self
            .user
            .ensure_as(request)
            .await
            .expect("a box can be woken");
        assert!(
            ended.as_ref().is_none_or(crate::Ended::is_done),
            "did not wake: {ended:?}"
        );
    }

    /// Follows the box log.
    pub fn events(&self, from: &str, streams: &[&str]) -> Events {
        Events::of_box(&self.user, &self.id, from, streams)
    }

    /// Reads the box log up to `key` and everything behind it that is there. What the box has just answered
    /// with may arrive in its log a moment later.
    pub async fn events_with(&self, key: &str, streams: &[&str]) -> Vec<Event> {
        let arrived = self.events(key, &[]).all().await;
        arrived.unwrap_or_else(|status| panic!("events from `{key}`: {status:?}"));
        self.events("", streams)
            .all()
            .await
            .expect("the log can be read")
    }

    /// Reads the transcript of the agent `main`, all pages.
    pub async fn transcript(&self) -> Vec<TranscriptItem> {
        let mut items = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = TranscriptRequest {
                page_token,
                page_size: 7,
                ..Default::default()
            };
            let page = self.user.agents(&self.id).transcript(request).await;
            let page = page.expect("the transcript can be read").into_inner();
            items.extend(page.items);
            if page.next_page_token.is_empty() {
                return items;
            }
            page_token = page.next_page_token;
        }
    }

    /// The processes in the box.
    pub fn processes(&self) -> Vec<Process> {
        let end = format!(".{}", self.id);
        in_cgroups(|name| name.ends_with(&end))
    }

    /// The processes in the box whose command line holds `part`, zombies not among them.
    pub fn processes_with(&self, part: &str) -> Vec<Process> {
        self.processes()
            .into_iter()
            .filter(|process| process.command.contains(part))
            .collect()
    }

    /// The agent's loop.
    pub fn agent(&self) -> Option<Process> {
        let serves = |process: &Process| process.command.split(' ').nth(1) == Some("serve");
        self.processes().into_iter().find(serves)
    }

    /// Process 1 of the box.
    pub fn init(&self) -> Process {
        let file = self.disks.join("run/init.pid");
        let pid = std::fs::read_to_string(&file).expect("a running box has a pid file");
        let pid = pid.trim().parse().expect("a pid");
        Process::find(pid).expect("a running box has an init")
    }
}
