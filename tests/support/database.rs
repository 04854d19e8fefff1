//! The databases that Baton runs on, one of its own for each test.

use std::{net::SocketAddr, ops::Deref, path::Path};

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
    server: Option<Server>,
}

/// The server of a database.
#[derive(Debug)]
enum Server {
    /// That of this test process.
    Shared(&'static Postgres),
    /// That of one test, which may break it.
    Own(Box<Postgres>),
}

impl Deref for Server {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        match self {
            Self::Shared(server) => server,
            Self::Own(server) => server,
        }
    }
}

impl Database {
    /// Makes one. On SQLite it lies in this directory; PostgreSQL is started for it alone if `own_server`.
    pub(crate) fn create(backend: Backend, directory: &Path, own_server: bool) -> Self {
        let name = format!("baton_{}", uuid::Uuid::new_v4().simple());
        match backend {
            Backend::Sqlite => {
                let url = format!("sqlite://{}", directory.join("baton.db").display());
                Self { name, url, server: None }
            }
            Backend::Postgres => {
                let available = "the test asked whether it is available";
                let server = if own_server {
                    Server::Own(Box::new(Postgres::start().expect(available)))
                } else {
                    Server::Shared(Postgres::shared().expect(available))
                };
                server.sql("postgres", &format!("CREATE DATABASE {name}"));
                Self { url: server.url(&name), name, server: Some(server) }
            }
        }
    }

    /// Where the server listens; none on SQLite.
    pub(crate) fn server_address(&self) -> Option<SocketAddr> {
        Some(self.server.as_ref()?.address())
    }

    /// The URL by which the database is reached through this address.
    pub(crate) fn url_through(&self, address: SocketAddr) -> String {
        format!("postgres://baton@{address}/{}", self.name)
    }

    /// The process of the server, parent of all of its others; none on SQLite.
    pub(crate) fn server_pid(&self) -> Option<i32> {
        Some(self.server.as_ref()?.pid())
    }

    /// The server that belongs to this test alone.
    pub(crate) fn own_server(&self) -> &Postgres {
        match &self.server {
            Some(Server::Own(server)) => server,
            _ => panic!("the test breaks a server that others use: World::with_own_server"),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs a statement on PostgreSQL, or tells what the server had against it; none on SQLite.
    pub(crate) fn try_sql(&self, statement: &str) -> Option<Result<Vec<String>, String>> {
        Some(self.server.as_ref()?.try_sql(&self.name, statement))
    }

    /// Runs a statement on PostgreSQL; none on SQLite, whose file belongs to the scheduler alone.
    pub(crate) fn sql(&self, statement: &str) -> Option<Vec<String>> {
        Some(self.server.as_ref()?.sql(&self.name, statement))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A second panic would hide the first, and the server goes with the process anyway.
        if let Some(server @ Server::Shared(_)) = &self.server
            && !std::thread::panicking()
        {
            server.sql("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        }
    }
}
