//! Stories about questions, on both databases.
