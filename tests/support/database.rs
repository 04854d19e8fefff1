//! The databases that Baton runs on, one of its own for each test.

use std::{net::SocketAddr, path::Path};

use crate::postgres::Postgres;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A file in the test's directory.
    Sqlite,
    /// A database on the private server of this test process.
    Postgres,
}

impl Backend {
    /// Whether it can be used here. A missing PostgreSQL is said, or is a failure where it is required.
    pub fn is_available(self) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Postgres => Postgres::shared().is_some(),
        }
    }
}

/// A database of one test.
#[derive(Debug)]
pub(crate) struct Database {
    name: String,
    url: String,
    server: Option<&'static Postgres>,
}

impl Database {
    pub(crate) fn create(backend: Backend, directory: &Path) -> Self {
        let name = format!("baton_{}", uuid::Uuid::new_v4().simple());
        match backend {
            Backend::Sqlite => {
                let url = format!("sqlite://{}", directory.join("baton.db").display());
                Self { name, url, server: None }
            }
            Backend::Postgres => {
                let server = Postgres::shared().expect("the test asked whether it is available");
                server.sql("postgres", &format!("CREATE DATABASE {name}"));
                Self { url: server.url(&name), name, server: Some(server) }
            }
        }
    }

    /// Where the server listens; none on SQLite.
    pub(crate) fn server_address(&self) -> Option<SocketAddr> {
        Some(self.server?.address())
    }

    /// The URL by which the database is reached through this address.
    pub(crate) fn url_through(&self, address: SocketAddr) -> String {
        format!("postgres://baton@{address}/{}", self.name)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs a statement on PostgreSQL; none on SQLite, whose file belongs to the scheduler alone.
    pub(crate) fn sql(&self, statement: &str) -> Option<Vec<String>> {
        Some(self.server?.sql(&self.name, statement))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A second panic would hide the first, and the server goes with the process anyway.
        if let Some(server) = self.server
            && !std::thread::panicking()
        {
            server.sql("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}
