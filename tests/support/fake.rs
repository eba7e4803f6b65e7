//! Fake servers that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;

/// A listener that is closed when this value is dropped.
#[derive(Debug)]
pub struct Fake {
    pub port: u16,
    connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Accepts connections and calls `serve` with each, on a thread of its own.
    pub fn listen(port: u16, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, over) = (Arc::clone(&connections), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(SeqCst) {
                    return;
                }
                count.fetch_add(1, SeqCst);
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
        Self { port, connections, stop, thread: Some(thread) }
    }

    /// Closes every connection at once.
    pub fn closing(port: u16) -> Self {
        Self::listen(port, drop)
    }

    /// Accepts connections and sends nothing.
    pub fn silent() -> Self {
        Self::listen(0, |mut stream| drop(std::io::copy(&mut stream, &mut std::io::sink())))
    }

    /// Speaks HTTP.
    pub fn http() -> Self {
        Self::listen(0, |mut stream| {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        })
    }

    /// Answers each command as `answer` says, given its first word.
    pub fn redis(answer: fn(&str) -> String) -> Self {
        Self::listen(0, move |stream| {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut stream = stream;
            while let Some(words) = read_command(&mut reader) {
                if stream.write_all(answer(&words[0]).as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Number of accepted connections.
    pub fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        // Unblocks `accept`, so that the thread ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The words of a command as clients send it, whatever is in them.
fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = read_length(reader, '*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; read_length(reader, '$')? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

fn read_length(reader: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
