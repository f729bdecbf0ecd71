//! The deciders, from outside: stories, and properties over random commands.
#![expect(clippy::unwrap_used, reason = "tests")]

mod agent_loop;
mod agent_props;
mod agent_stories;
mod agent_tools;
mod boxes;
mod directory;
mod erasure;
mod exec;
mod machine;
mod passkeys;
mod user;
