//! cocoonbox-projections
