//! The deciders, from outside: stories, and properties over random commands.
#![expect(clippy::unwrap_used, reason = "tests")]

mod agent_props;
mod agent_stories;
mod boxes;
mod directory;
mod exec;
mod machine;
mod user;
