//! One story, told on every database.

use std::future::Future;

use crate::{Backend, World};

/// Turns each `async fn moral(world: World)` into two tests, `moral::on_sqlite` and `moral::on_postgres`.
#[macro_export]
macro_rules! stories {
    ($($(#[$attribute:meta])* async fn $moral:ident($world:ident: $kind:ty) $story:block)+) => {$(
        $(#[$attribute])*
        mod $moral {
            use super::*;

            async fn story($world: $kind) $story

            #[test]
            fn on_sqlite() {
                $crate::tell($crate::Backend::Sqlite, story);
            }

            #[test]
            fn on_postgres() {
                $crate::tell($crate::Backend::Postgres, story);
            }
        }
    )+};
}

/// Tells a story on one database, or says that this database is not installed here.
pub fn tell<F: Future<Output = ()>>(backend: Backend, story: fn(World) -> F) {
    if !backend.is_available() {
        return;
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made")
        .block_on(story(World::on(backend)));
}
