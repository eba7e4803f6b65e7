//! Test certificates, made with `openssl`.

use super::redis::{RedisServer, TempDirectory, free_port};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An authority, and a certificate for `127.0.0.1` and `localhost` that it has signed.
#[derive(Debug)]
pub struct Authority(TempDirectory);

const SETTINGS: &str = "\
[req]
distinguished_name = name
prompt = no
[name]
CN = tests NUMBER
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1, DNS:localhost
";

impl Authority {
    /// # Panics
    /// There is no `openssl`.
    pub fn new() -> Self {
        let authority = Self(TempDirectory::new());
        // Two authorities of one name would be taken for one another.
        let number = format!("{:016x}", rand::random::<u64>());
        std::fs::write(authority.path("settings"), SETTINGS.replace("NUMBER", &number)).unwrap();
        authority.openssl(
            "req -x509 -config settings -extensions authority -days 2 -nodes \
             -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -keyout ca.key -out ca.pem",
        );
        authority.openssl(
            "req -config settings -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
             -keyout server.key -out server.csr",
        );
        authority.openssl(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
             -extfile settings -extensions server -out server.pem",
        );
        authority
    }

    /// The certificate that proves the others.
    pub fn root(&self) -> Vec<u8> {
        std::fs::read(self.path("ca.pem")).unwrap()
    }

    /// A certificate and its key.
    pub fn certificate(&self) -> (Vec<u8>, Vec<u8>) {
        let read = |name| std::fs::read(self.path(name)).unwrap();
        (read("server.pem"), read("server.key"))
    }

    /// A server that also speaks TLS, and its port for that. It asks its clients for a certificate
    /// if `clients` is `yes`.
    pub fn start(&self, binary: &Path, clients: &str) -> (RedisServer, u16) {
        let port = free_port();
        let arguments = self.arguments(port, clients);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        (RedisServer::start_with(binary, &arguments), port)
    }

    /// Arguments of a server that speaks TLS on this port.
    pub fn arguments(&self, port: u16, clients: &str) -> Vec<String> {
        let path = |name| self.path(name).display().to_string();
        let arguments = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", path("server.pem")),
            ("--tls-key-file", path("server.key")),
            ("--tls-ca-cert-file", path("ca.pem")),
            ("--tls-auth-clients", clients.to_owned()),
        ];
        arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let made = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .expect("openssl is missing; help: apt-get install openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
