//! The harness itself: what it promises to the stories must hold without any part of Baton.

use std::{net::SocketAddr, time::Duration};

use baton_tests::{
    Backend, PATIENCE,
    proxy::{Cut, Proxy, Way},
    soon,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// A server that sends everything back.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = peer.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

async fn exchange(peer: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
    peer.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    peer.read_exact(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn what_is_held_waits_and_is_not_lost() {
    let proxy = Proxy::to(echo().await).await;
    let mut peer = TcpStream::connect(proxy.address()).await.expect("the proxy listens");
    assert_eq!(exchange(&mut peer, b"one").await.expect("it passes"), b"one");
    for way in [Way::Up, Way::Down] {
        proxy.hold(way);
        assert!(timeout(Duration::from_millis(100), exchange(&mut peer, b"two")).await.is_err());
        proxy.heal();
        let mut answer = [0; 3];
        peer.read_exact(&mut answer).await.expect("it goes on");
        assert_eq!(&answer, b"two");
    }
}

#[tokio::test]
async fn a_cut_falls_within_a_frame_and_spares_new_connections() {
    let proxy = Proxy::to(echo().await).await;
    let mut peer = TcpStream::connect(proxy.address()).await.expect("the proxy listens");
    proxy.cut_after(Way::Down, 2, Cut::Close);
    peer.write_all(b"four").await.expect("it is taken");
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, peer.read_to_end(&mut answer)).await.expect("the connection ends");
    assert_eq!(answer, b"fo");
    let mut peer = TcpStream::connect(proxy.address()).await.expect("the proxy listens");
    assert_eq!(exchange(&mut peer, b"five").await.expect("it passes"), b"five");
    proxy.cut(Cut::Reset);
    assert!(timeout(PATIENCE, exchange(&mut peer, b"six")).await.expect("it ends").is_err());
}

#[tokio::test]
async fn a_refusing_proxy_takes_connections_again_once_healed() {
    let proxy = Proxy::to(echo().await).await;
    proxy.refuse();
    let address = proxy.address();
    soon("connections are refused", || std::net::TcpStream::connect(address).is_err()).await;
    proxy.heal();
    soon("connections are taken", || std::net::TcpStream::connect(address).is_ok()).await;
}

#[test]
fn the_private_postgresql_is_there_or_says_why_not() {
    // Prints where it is missing, fails where it is required, and starts it where it is there.
    let _ = Backend::Postgres.is_available();
}
