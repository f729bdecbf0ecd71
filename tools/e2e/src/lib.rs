//! cocoonbox-e2e
