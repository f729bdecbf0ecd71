mod account_story;
mod hostile;
mod random;
mod running;
mod transcript_story;
mod world;
