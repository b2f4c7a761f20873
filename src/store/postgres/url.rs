//! The URLs of PostgreSQL, read as libpq reads them.

use std::env;
use std::fmt;
use std::path::Path;

use super::environment::password_in_file;
use crate::store::credentials::{Credentials, Password, TlsFiles};
use crate::store::net::Endpoint;
use crate::user::USER;

/// Where a database is, and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    pub servers: Vec<Endpoint>,
    user: Option<String>,
    password: Option<Password>,
    database: Option<String>,
    /// `None`: encrypted beyond this host.
    is_encrypted: Option<bool>,
    /// A pooler such as PgBouncer is in between, and lends server processes.
    pub is_pooled: bool,
    tls_files: Box<TlsFiles>,
}

/// One login.
pub struct PostgresLogin {
    pub user: String,
    pub password: Option<String>,
    pub database: String,
}

const FORM: &str = "a PostgreSQL URL looks like postgres://[user[:password]@]host[:port],host[:port]/database[?sslmode=verify-full]";
const PORT: u16 = 5432;

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

impl PostgresAddress {
    /// Reads `postgres://[user[:password]@]host[:port],.../database?host=/folder&sslmode=...`. The error never shows the
    /// password.
    pub fn parse(text: &str) -> Result<PostgresAddress, String> {
        let rest = text.split_once("://").ok_or(FORM)?.1;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = place.rsplit_once('@').unwrap_or(("", place));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (login, None),
        };
        let given = |text: &str| Ok::<_, String>(Some(decoded(text)?).filter(|text| !text.is_empty()));
        let (mut user, mut database, mut hosts) = (given(user)?, given(database)?, hosts.to_owned());
        let (mut port, mut sslmode, mut root) =
            (variable("PGPORT"), variable("PGSSLMODE"), variable("PGSSLROOTCERT"));
        let mut is_pooled = false;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or(FORM)?;
            let value = decoded(value)?;
            match name {
                "host" => hosts = value,
                "port" => port = Some(value),
                "user" => user = Some(value),
                "dbname" => database = Some(value),
                "sslmode" => sslmode = Some(value),
                "sslrootcert" => root = Some(value),
                "pooler" if value == "yes" || value == "no" => is_pooled = value == "yes",
                "pooler" => return Err(format!("pooler is yes or no; {FORM}")),
                "application_name" | "connect_timeout" | "target_session_attrs" => {}
                _ => {
                    return Err(format!(
                        "the option '{}' is not known; {FORM}",
                        crate::sanitize::sanitize(name)
                    ));
                }
            }
        }
        let is_encrypted = match sslmode.as_deref() {
            None | Some("allow" | "prefer") => None,
            Some("disable") => Some(false),
            Some("require" | "verify-ca" | "verify-full") => Some(true),
            Some(_) => return Err(format!("sslmode is disable, require, verify-ca or verify-full; {FORM}")),
        };
        if hosts.is_empty() {
            hosts = variable("PGHOST").unwrap_or_else(default_host);
        }
        let port = match port.map(|port| port.parse()) {
            None => PORT,
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(format!("the port is not a number; {FORM}")),
        };
        let servers = hosts.split(',').map(|host| server(host, port)).collect::<Option<Vec<_>>>();
        let servers = servers.ok_or_else(|| format!("one of the hosts cannot be read; {FORM}"))?;
        // Without a file, the authorities of the system are trusted.
        let root = root.filter(|root| root != "system");
        let tls_files = TlsFiles { ca: root.map(Into::into), ..TlsFiles::default() };
        let password = password.map(Password::Fixed);
        Ok(PostgresAddress {
            servers,
            user,
            password,
            database,
            is_encrypted,
            is_pooled,
            tls_files: Box::new(tls_files),
        })
    }

    /// Logged in as `credentials` say, where the URL does not.
    pub fn with(mut self, credentials: &Credentials) -> PostgresAddress {
        self.user = self.user.or_else(|| credentials.user.clone());
        self.password = self.password.or_else(|| credentials.password.clone());
        let ca = credentials.tls_files.ca.clone().or_else(|| self.tls_files.ca.clone());
        self.tls_files = Box::new(TlsFiles { ca, ..credentials.tls_files.clone() });
        self
    }

    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// A server beyond this host is spoken to in plain.
    pub fn is_in_plain(&self) -> bool {
        self.servers.iter().any(|server| self.tls(server).is_none() && matches!(server, Endpoint::Tcp { .. }))
    }

    /// Each server by itself.
    pub fn each(&self) -> impl Iterator<Item = PostgresAddress> {
        self.servers.iter().map(|server| PostgresAddress { servers: vec![server.clone()], ..self.clone() })
    }

    /// How the connection to this server is encrypted, if it is.
    pub fn tls(&self, server: &Endpoint) -> Option<&TlsFiles> {
        let is_encrypted = match (server, self.is_encrypted) {
            (Endpoint::Unix(_), _) => false,
            (_, Some(chosen)) => chosen,
            (Endpoint::Tcp { host, .. }, None) => !is_loopback(host),
        };
        is_encrypted.then_some(&*self.tls_files)
    }

    pub fn login(&self, server: &Endpoint) -> PostgresLogin {
        let user = self.user.clone().or_else(|| variable("PGUSER")).unwrap_or_else(our_name);
        let database =
            self.database.clone().or_else(|| variable("PGDATABASE")).unwrap_or_else(|| user.clone());
        let password = self.password.as_ref().map(Password::current);
        let password = password
            .or_else(|| variable("PGPASSWORD"))
            .or_else(|| password_in_file(server, &database, &user));
        PostgresLogin { user, password, database }
    }
}

fn our_name() -> String {
    match &*USER {
        Ok(Some(user)) => user.name.clone(),
        _ => "postgres".to_owned(),
    }
}

fn default_host() -> String {
    let folder = "/var/run/postgresql";
    if Path::new(folder).is_dir() { folder.to_owned() } else { "localhost".to_owned() }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn server(text: &str, default: u16) -> Option<Endpoint> {
    let text = &*decoded(text).ok()?;
    if text.starts_with('/') {
        // A host and its port may be apart.
        let (folder, port) = match text.rsplit_once(':') {
            Some((folder, port)) => (folder, port.parse().ok()?),
            None => (text, default),
        };
        return Some(Endpoint::Unix(Path::new(folder).join(format!(".s.PGSQL.{port}"))));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, port)| (host, port.strip_prefix(':')))?,
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(default), |port| port.parse().ok())?;
    let is_host = !host.is_empty()
        && host.len() <= crate::store::net::LONGEST_HOST
        && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:%".contains(c));
    (is_host && port > 0).then(|| Endpoint::Tcp { host: host.to_owned(), port })
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    match decoded {
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        _ => Err(format!("it is not UTF-8; {FORM}")),
    }
}

impl fmt::Display for PostgresAddress {
    /// Without user and password: this is what messages show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self.servers.iter().map(Endpoint::to_string).collect();
        write!(f, "postgres://{}", servers.join(","))?;
        match &self.database {
            Some(database) => write!(f, "/{}", crate::sanitize::sanitize(database)),
            None => Ok(()),
        }
    }
}

#[test]
fn urls_are_read_and_shown_without_the_password() {
    for (text, shown) in [
        ("postgres://h/locks", "postgres://h:5432/locks"),
        ("postgresql://u:can%40ary@h:1,[::1]:2/db", "postgres://h:1,[::1]:2/db"),
        ("postgres:///db?host=/run/postgresql&port=5433", "postgres:///run/postgresql/.s.PGSQL.5433/db"),
        ("postgres://%2Frun%2Fpg/db", "postgres:///run/pg/.s.PGSQL.5432/db"),
    ] {
        assert_eq!(PostgresAddress::parse(text).map(|address| address.to_string()), Ok(shown.to_owned()));
    }
    for text in [
        "postgres://a,,b/db",
        "postgres://h:0/db",
        "postgres://u:canary@h:x/db",
        "postgres://u:can/ary@h/db",
        "postgres://h/db?canary",
        "postgres://u:canary@h/db?sslmode=on",
        "postgres://u:canary@h/db?options=x",
        "postgres://u:canary@h/db?pooler=on",
    ] {
        let error = PostgresAddress::parse(text).err();
        let is_good = |error: String| error.contains("postgres://[user") && !error.contains("canary");
        assert!(error.is_some_and(is_good), "{text}");
    }
}

#[test]
fn what_leaves_this_host_is_encrypted() {
    for (text, is_encrypted) in [
        ("postgres://h/db", true),
        ("postgres://h/db?sslmode=prefer", true),
        ("postgres://h/db?sslmode=disable", false),
        ("postgres://127.0.0.1/db", false),
        ("postgres://localhost/db?sslmode=verify-full", true),
        ("postgres:///db?host=/tmp&sslmode=require", false),
    ] {
        let address = PostgresAddress::parse(text);
        let is_so = address.is_ok_and(|address| address.tls(&address.servers[0]).is_some() == is_encrypted);
        assert!(is_so, "{text}");
    }
}
