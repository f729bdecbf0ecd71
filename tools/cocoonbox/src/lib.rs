//! cocoonbox
