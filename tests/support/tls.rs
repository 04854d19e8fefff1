//! TLS before services of a test: an authority that nobody knows, and fronts with a certificate of it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
};

/// An authority of one test, whom only those trust that are told where its file is.
#[derive(Clone)]
pub struct Authority {
    file: PathBuf,
    acceptor: TlsAcceptor,
}

impl Authority {
    /// A new one, with its certificate in a file of this directory.
    pub fn in_directory(directory: &Path) -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("there are no names that could be wrong");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).expect("it can sign itself");
        let file = directory.join("authority.pem");
        fs::write(&file, own.pem()).expect("the certificate can be written");
        let issuer = Issuer::new(params, key);

        let key = KeyPair::generate().expect("a key can be made");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("these are names");
        let certificate = params.signed_by(&key, &issuer).expect("it can sign others");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the usual versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .expect("the key fits the certificate");
        Self { file, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    /// The environment of a program that trusts it.
    pub fn trusted(&self) -> (String, String) {
        ("SSL_CERT_FILE".to_owned(), self.file.display().to_string())
    }

    /// Speaks TLS on a free port, and without it to what lies behind.
    pub async fn before(&self, service: SocketAddr) -> SocketAddr {
        self.front(service, false).await
    }

    /// The same for a mail server: TLS begins when it is asked for.
    pub async fn before_mail(&self, server: SocketAddr) -> SocketAddr {
        self.front(server, true).await
    }

    async fn front(&self, behind: SocketAddr, on_request: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let acceptor = self.acceptor.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Who does not trust the certificate hangs up, and that is all.
                tokio::spawn(carry(acceptor.clone(), stream, behind, on_request));
            }
        });
        address
    }
}

async fn carry(acceptor: TlsAcceptor, mut stream: TcpStream, behind: SocketAddr, on_request: bool) -> Option<()> {
    if on_request {
        starttls(&mut stream).await?;
    }
    let mut outside = acceptor.accept(stream).await.ok()?;
    let mut inside = BufReader::new(TcpStream::connect(behind).await.ok()?);
    if on_request {
        // The greeting was said already.
        inside.read_line(&mut String::new()).await.ok()?;
    }
    copy_bidirectional(&mut outside, &mut inside).await.ok().map(drop)
}

/// What is said before TLS begins.
async fn starttls(stream: &mut TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream);
    lines.get_mut().write_all(b"220 front ESMTP\r\n").await.ok()?;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let answer: &[u8] = match line.trim_end().to_uppercase().as_str() {
            "STARTTLS" => b"220 go on\r\n",
            line if line.starts_with("EHLO") => b"250-front\r\n250 STARTTLS\r\n",
            _ => b"530 not without TLS\r\n",
        };
        lines.get_mut().write_all(answer).await.ok()?;
        if answer.starts_with(b"220") {
            return Some(());
        }
    }
}
