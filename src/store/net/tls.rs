//! TLS: verification of the server, our certificate, and errors in plain words.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use nix::poll::PollFlags;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, InvalidMessage, RootCertStore,
};
use rustls_native_certs::{load_certs_from_paths, load_native_certs};

use super::{RequestError, RequestResult, check, wait_ready};
use crate::lock::Timeout;
use crate::store::credentials::{Roots, TlsFiles};
use crate::trusted_file::refuse_shared;

/// An encrypted connection over a socket that does not block.
pub struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
}

/// A session with this host, before its handshake. The files are read again for each connection: a certificate may be
/// renewed while a job runs. `protocol` is what the connection is for (ALPN).
pub fn session(host: &str, files: &TlsFiles, protocol: Option<&str>) -> RequestResult<ClientConnection> {
    let no_name = |_| RequestError::Unusable(format!("'{host}' is not a name that a certificate can have"));
    // A certificate knows no zones.
    let host = host.split_once('%').map_or(host, |(address, _)| address);
    let name = ServerName::try_from(host.to_owned()).map_err(no_name)?;
    let unusable = |error: &dyn Display| RequestError::Unusable(format!("TLS cannot be set up: {error}"));
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(files)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_webpki_verifier(verifier.map_err(|error| unusable(&error))?);
    let mut config = match (&files.cert, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let owned = private_key(key)?;
            let chain = certificates("--tls-cert", cert)?;
            builder.with_client_auth_cert(chain, owned).map_err(|error| match error {
                Error::InconsistentKeys(_) => {
                    let why = format!("it is not the key of --tls-cert {}", cert.display());
                    bad_file("--tls-key", key, why)
                }
                error => bad_file("--tls-key", key, error),
            })?
        }
        (Some(cert), None) => return Err(bad_file("--tls-cert", cert, "it needs its --tls-key FILE")),
        (None, Some(key)) => return Err(bad_file("--tls-key", key, "it needs its --tls-cert FILE")),
    };
    config.alpn_protocols = protocol.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    ClientConnection::new(Arc::new(config), name).map_err(|error| unusable(&error))
}

fn roots(files: &TlsFiles) -> RequestResult<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &files.ca else {
        // Some of the system's may be of a kind that rustls does not know.
        roots.add_parsable_certificates(of_the_system(&files.roots));
        if roots.is_empty() {
            let why = "this system has no certificate authorities; --tls-ca FILE names those to trust";
            return Err(RequestError::Unusable(why.to_owned()));
        }
        return Ok(roots);
    };
    for certificate in certificates("--tls-ca", path)? {
        roots.add(certificate).map_err(|_| bad_file("--tls-ca", path, "a certificate is broken"))?;
    }
    Ok(roots)
}

fn of_the_system(roots: &Roots) -> Vec<CertificateDer<'static>> {
    let file = roots.file.as_deref().map(|file| load_certs_from_paths(Some(file), None));
    let folders = roots.folders.iter().map(|folder| load_certs_from_paths(None, Some(folder)));
    let mut named = file.into_iter().chain(folders).peekable();
    match named.peek() {
        None => load_native_certs().certs,
        Some(_) => named.flat_map(|found| found.certs).collect(),
    }
}

fn certificates(option: &str, path: &Path) -> RequestResult<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(option, path, &error))?;
    match certificates.is_empty() {
        true => Err(bad_file(option, path, "it has no certificate")),
        false => Ok(certificates),
    }
}

fn private_key(path: &Path) -> RequestResult<PrivateKeyDer<'static>> {
    let option = "--tls-key";
    let broken = |error| unreadable(option, path, &pem::Error::Io(error));
    let file = File::open(path).map_err(broken)?;
    refuse_shared(&file).map_err(|why| bad_file(option, path, why))?;
    PrivateKeyDer::from_pem_reader(file).map_err(|error| match error {
        pem::Error::NoItemsFound => bad_file(option, path, "it has no key, or one with a passphrase"),
        error => unreadable(option, path, &error),
    })
}

fn bad_file(option: &str, path: &Path, why: impl Display) -> RequestError {
    RequestError::Unusable(format!("{option} {}: {why}", path.display()))
}

/// Without the text of the file, which may be a key.
fn unreadable(option: &str, path: &Path, error: &pem::Error) -> RequestError {
    match error {
        // Nothing is wrong with the file: this process has too many open.
        pem::Error::Io(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            let path = path.display();
            RequestError::Broken(format!("{option} {path} cannot be read: {error}; raise ulimit -n"))
        }
        pem::Error::Io(error) => bad_file(option, path, format_args!("cannot be read: {error}")),
        _ => bad_file(option, path, "it is not a PEM file"),
    }
}

impl TlsStream {
    /// Does the handshake, which verifies the server.
    pub fn connect(
        socket: TcpStream,
        session: ClientConnection,
        files: &TlsFiles,
        timeout: &Timeout,
    ) -> RequestResult<TlsStream> {
        let mut stream = TlsStream { socket, session };
        while stream.session.is_handshaking() {
            check(timeout).map_err(handshake_error)?;
            let (step, flags) = match stream.session.wants_write() {
                true => (stream.send(), PollFlags::POLLOUT),
                false => (stream.receive(), PollFlags::POLLIN),
            };
            match step {
                Ok(0) => {
                    let why = "it closed the connection during the TLS handshake; is this its TLS port?";
                    return Err(RequestError::broken(why));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait_ready(stream.as_fd(), flags, timeout).map_err(handshake_error)?;
                }
                Err(error) => {
                    // Sends the alert that tells the server why.
                    let _ = stream.send();
                    return Err(match (tls_error(&error), &files.ca) {
                        (Some(Error::InvalidCertificate(error)), Some(ca)) if is_unknown_issuer(error) => {
                            let ca = ca.display();
                            RequestError::Broken(format!(
                                "its certificate is not signed by an authority in --tls-ca {ca}"
                            ))
                        }
                        (Some(error), _) => explain(error, stream.session.protocol_version().is_some()),
                        (None, _) => RequestError::Broken(format!(
                            "the connection broke during the TLS handshake; is this its TLS port? ({error})"
                        )),
                    });
                }
            }
        }
        Ok(stream)
    }

    /// Reads what has arrived and decrypts it. Returns the number of bytes, 0 at the end.
    fn receive(&mut self) -> io::Result<usize> {
        let length = self.session.read_tls(&mut self.socket)?;
        self.session.process_new_packets().map_err(io::Error::other)?;
        Ok(length)
    }

    /// Sends encrypted bytes. Returns their number.
    fn send(&mut self) -> io::Result<usize> {
        self.session.write_tls(&mut self.socket).map_err(|error| {
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                return error;
            }
            // A server that refuses us sends an alert and closes.
            match self.receive() {
                Err(why) if tls_error(&why).is_some() => why,
                _ => error,
            }
        })
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.session.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            length => return length,
        }
        self.receive()?;
        // A record may hold no data: the caller decides whether there is time for the next one.
        self.session.reader().read(buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::Interrupted.into(),
            _ => error,
        })
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Earlier bytes go first, so that the buffer does not grow.
        self.flush()?;
        self.session.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.send()?;
        }
        Ok(())
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn handshake_error(failure: RequestError) -> RequestError {
    match failure {
        RequestError::TimedOut => RequestError::broken(
            "no answer to the TLS handshake in time; is this its TLS port, or should the URL be one without TLS?",
        ),
        other => other,
    }
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

pub fn error_in(error: &io::Error) -> Option<RequestError> {
    tls_error(error).map(|error| explain(error, true))
}

/// The error in plain words. `has_version`: both sides had agreed on a version of TLS before it.
fn explain(error: &Error, has_version: bool) -> RequestError {
    use AlertDescription as Alert;
    let why = match error {
        Error::InvalidCertificate(error) => return RequestError::Broken(of_certificate(error)),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS here; is this its TLS port, or should the URL be one without TLS?"
        }
        // The general alert, where a certificate is missing: OpenSSL in TLS 1.2, Java since 17.0.19.
        Error::AlertReceived(Alert::HandshakeFailure) if has_version => return no_certificate(),
        Error::AlertReceived(
            Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity,
        )
        | Error::PeerIncompatible(_) => {
            "it has no version of TLS in common with redlock, which knows 1.2 and 1.3"
        }
        Error::AlertReceived(Alert::CertificateRequired) => return no_certificate(),
        Error::AlertReceived(Alert::UnknownCA) => return refused("it does not know who signed it"),
        Error::AlertReceived(Alert::CertificateExpired) => return refused("it has expired"),
        Error::AlertReceived(Alert::CertificateRevoked) => return refused("it was revoked"),
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateUnknown
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => return refused("it is not good for the server"),
        Error::AlertReceived(Alert::UnrecognisedName) => "the server's certificate is for another host name",
        other => return RequestError::Broken(format!("TLS failed: {other}")),
    };
    RequestError::broken(why)
}

fn no_certificate() -> RequestError {
    RequestError::Denied("it wants a certificate: --tls-cert FILE and --tls-key FILE".to_owned())
}

fn refused(why: &str) -> RequestError {
    RequestError::Denied(format!("it does not accept the certificate of --tls-cert: {why}"))
}

/// A bad signature comes from an authority that has a known name and another key: it was created again.
fn is_unknown_issuer(error: &CertificateError) -> bool {
    matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature)
}

fn of_certificate(error: &CertificateError) -> String {
    let why = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet; is the clock of this host right?"
        }
        error if is_unknown_issuer(error) => {
            "is signed by an unknown authority; --tls-ca FILE names those to trust"
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "names no host (it has no subjectAltName)"
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().take(MOST_NAMES).map(|name| plain(name)).collect();
            return format!("its certificate is for other names ({})", names.join(", "));
        }
        CertificateError::Revoked => "was revoked",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for servers"
        }
        // Errors of webpki that rustls has no names for.
        CertificateError::Other(other) => match other.to_string() {
            error if error.contains("UnsupportedCertVersion") => {
                "is of version 1 of X.509; servers need version 3, with a subjectAltName"
            }
            error if error.contains("CaUsedAsEndEntity") => {
                "is a certificate of an authority (CA:TRUE); a server needs one that the authority has signed"
            }
            error => return format!("its certificate is not good: {error}"),
        },
        other => return format!("its certificate is not good: {other}"),
    };
    format!("its certificate {why}")
}

const MOST_NAMES: usize = 4;

/// The name in `DnsName("a.example")`, as rustls shows it, with harmless characters only: a server may send anything.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')')).trim_matches('"');
    inner.chars().filter(|c| c.is_ascii_alphanumeric() || "-._:*@/".contains(*c)).take(100).collect()
}
