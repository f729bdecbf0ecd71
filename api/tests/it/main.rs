//! Integration tests of what runs outside the boxes.

mod door;
mod gateway;
