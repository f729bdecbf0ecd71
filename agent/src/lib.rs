//! cocoonbox-agent
