//! Certificates and the authority that signs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

use super::Folder;

/// Somebody who signs certificates, with a folder of its own for them.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: Folder,
}

/// A certificate, its key, and the authority that signed it, as PEM files.
#[derive(Clone)]
pub struct Papers {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// From when to when a certificate is good.
#[derive(Clone, Copy)]
pub enum Valid {
    Now,
    UntilYear(i32),
    FromYear(i32),
}

impl Authority {
    pub fn new() -> Authority {
        Authority::named(&format!("authority {}", fastrand::u64(..)))
    }

    pub fn named(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let folder = Folder::new();
        fs::write(folder.path("ca"), issuer.pem()).expect("a certificate");
        Authority { issuer, folder }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path("ca")
    }

    /// A certificate for these names, DNS names or IP addresses.
    pub fn sign(&self, names: &[&str], valid: Valid) -> Papers {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let file = format!("{}-{}", names.join("-").replace(['/', '*'], "_"), fastrand::u32(..));
        let mut params = CertificateParams::new(names).expect("names");
        match valid {
            Valid::Now => {}
            Valid::UntilYear(year) => params.not_after = date_time_ymd(year, 1, 1),
            Valid::FromYear(year) => params.not_before = date_time_ymd(year, 1, 1),
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signature");
        let papers = Papers {
            ca: self.file(),
            cert: self.folder.path(&format!("{file}.cert")),
            key: self.folder.path(&format!("{file}.key")),
        };
        fs::write(&papers.cert, certificate.pem()).expect("a certificate");
        fs::write(&papers.key, key.serialize_pem()).expect("a key");
        fs::set_permissions(&papers.key, fs::Permissions::from_mode(0o600)).expect("its mode");
        papers
    }
}
