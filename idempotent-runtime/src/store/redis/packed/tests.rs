//! Against a server that answers when the test lets it. On one thread, so that tasks have their turn
//! in a known order.

use super::*;
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The server's end of a connection.
struct Server {
    stream: DuplexStream,
    unread: Vec<u8>,
}

impl Server {
    /// A server, and a connection to it.
    async fn connect() -> (Self, Packed) {
        let (client, stream) = duplex(1 << 20);
        let mut server = Self { stream, unread: Vec::new() };
        let connecting = tokio::spawn(async move {
            let (info, config) = (RedisConnectionInfo::default(), AsyncConnectionConfig::new());
            let made = MultiplexedConnection::new_with_config(&info, client, config).await;
            let (connection, driver) = made.unwrap();
            tokio::spawn(driver);
            connection
        });
        // The client tells its name and version.
        for _ in 0..2 {
            server.next().await;
            server.answer("+OK\r\n").await;
        }
        (server, Packed::new(connecting.await.unwrap()))
    }

    /// The last argument of the next command.
    async fn next(&mut self) -> String {
        let count = self.number('*').await;
        let mut last = String::new();
        for _ in 0..count {
            let length = self.number('$').await;
            while self.unread.len() < length + 2 {
                assert_ne!(self.stream.read_buf(&mut self.unread).await.unwrap(), 0);
            }
            last = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
            self.unread.drain(..2);
        }
        last
    }

    async fn number(&mut self, sign: char) -> usize {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                let line = String::from_utf8(line).unwrap();
                return line.trim_end().strip_prefix(sign).unwrap().parse().unwrap();
            }
            assert_ne!(self.stream.read_buf(&mut self.unread).await.unwrap(), 0);
        }
    }

    async fn answer(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads this many commands, answers each with its last argument, and returns them.
    async fn echo(&mut self, count: usize) -> Vec<String> {
        let mut heard = Vec::new();
        for _ in 0..count {
            let said = self.next().await;
            self.answer(&format!("+{said}\r\n")).await;
            heard.push(said);
        }
        heard
    }
}

type Said = JoinHandle<Result<Value, RedisError>>;

fn say(connection: &Packed, text: impl ToString) -> Said {
    let (connection, text) = (connection.clone(), text.to_string());
    tokio::spawn(async move { connection.command(redis::cmd("ECHO").arg(text).to_owned()).await })
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn messages(connection: &Packed) -> Vec<usize> {
    lock(&connection.0.state).messages.clone()
}

async fn assert_answers(said: Vec<Said>) {
    for (number, said) in said.into_iter().enumerate() {
        assert_eq!(said.await.unwrap().unwrap(), Value::SimpleString(number.to_string()));
    }
}

#[tokio::test]
async fn a_few_commands_are_sent_each_by_itself() {
    let (mut server, connection) = Server::connect().await;
    let said: Vec<_> = (0..ALONE).map(|number| say(&connection, number)).collect();
    assert_eq!(server.echo(ALONE).await, numbers(ALONE));
    assert_answers(said).await;
    assert!(messages(&connection).is_empty());
    assert_eq!(connection.0.under_way.load(Relaxed), 0);
}

#[tokio::test]
async fn commands_of_tasks_that_are_ready_travel_together() {
    let (mut server, connection) = Server::connect().await;
    let said: Vec<_> = (0..ALONE + 50).map(|number| say(&connection, number)).collect();
    assert_eq!(server.echo(ALONE + 50).await, numbers(ALONE + 50));
    assert_answers(said).await;
    assert_eq!(messages(&connection), [50]);
}

#[tokio::test]
async fn no_command_waits_for_the_answer_to_another() {
    let (mut server, connection) = Server::connect().await;
    let said: Vec<_> = (0..ALONE + 1).map(|number| say(&connection, number)).collect();
    for number in 0..=ALONE {
        assert_eq!(server.next().await, number.to_string());
    }
    let later = say(&connection, "later");
    // Heard while none of the others has its answer.
    assert_eq!(server.next().await, "later");
    for number in 0..=ALONE {
        server.answer(&format!("+{number}\r\n")).await;
    }
    server.answer("+later\r\n").await;
    assert_answers(said).await;
    assert_eq!(later.await.unwrap().unwrap(), Value::SimpleString("later".to_owned()));
}

#[tokio::test]
async fn a_message_has_a_limit() {
    let (mut server, connection) = Server::connect().await;
    let count = ALONE + 2 * TOGETHER + 1;
    let said: Vec<_> = (0..count).map(|number| say(&connection, number)).collect();
    assert_eq!(server.echo(count).await, numbers(count));
    assert_answers(said).await;
    assert_eq!(messages(&connection), [TOGETHER, TOGETHER, 1]);
}

#[tokio::test]
async fn large_commands_are_not_sent_with_many_others() {
    let (mut server, connection) = Server::connect().await;
    let large = "x".repeat(LARGE);
    let said: Vec<_> = (0..ALONE + 3).map(|_| say(&connection, &large)).collect();
    for _ in 0..ALONE + 3 {
        assert_eq!(server.next().await, large);
        server.answer("+OK\r\n").await;
    }
    for said in said {
        said.await.unwrap().unwrap();
    }
    assert_eq!(messages(&connection), [1, 1, 1]);
}

#[tokio::test]
async fn an_error_is_the_answer_to_one_command() {
    let (mut server, connection) = Server::connect().await;
    let said: Vec<_> = (0..ALONE + 3).map(|number| say(&connection, number)).collect();
    for number in 0..ALONE + 3 {
        server.next().await;
        let answer = match number == ALONE + 1 {
            true => "-OOM full\r\n",
            false => "+OK\r\n",
        };
        server.answer(answer).await;
    }
    for (number, said) in said.into_iter().enumerate() {
        let answer = said.await.unwrap().and_then(Value::extract_error);
        assert_eq!(answer.is_err(), number == ALONE + 1, "{number}: {answer:?}");
    }
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_is_not_sent() {
    let (mut server, connection) = Server::connect().await;
    let said: Vec<_> = (0..ALONE + 2).map(|number| say(&connection, number)).collect();
    let given_up = connection.clone();
    let given_up = tokio::spawn(async move {
        let mut command = pin!(given_up.command(redis::cmd("ECHO").arg("given up").to_owned()));
        poll_fn(|context| Poll::Ready(command.as_mut().poll(context).is_pending())).await
    });
    assert!(given_up.await.unwrap());
    assert_eq!(server.echo(ALONE + 2).await, numbers(ALONE + 2));
    assert_answers(said).await;
    assert_eq!(messages(&connection), [2]);
    assert_eq!(connection.0.under_way.load(Relaxed), 0);
}

#[tokio::test]
async fn a_connection_that_ends_leaves_nobody_waiting() {
    let (mut server, connection) = Server::connect().await;
    let said: Vec<_> = (0..ALONE + 3).map(|number| say(&connection, number)).collect();
    server.echo(ALONE + 1).await;
    server.next().await;
    drop(server);
    let mut answered = 0;
    for said in said {
        answered += usize::from(said.await.unwrap().is_ok());
    }
    // That of the message which was answered in part is not known either.
    assert_eq!(answered, ALONE);
    assert!(connection.command(redis::cmd("PING")).await.is_err());
    assert_eq!(connection.0.under_way.load(Relaxed), 0);
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Fails the test rather than letting it hang.
async fn soon<T>(answer: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), answer).await.expect("an answer")
}

/// A command that is sent and answered, after something went wrong with another one.
async fn assert_usable(server: &mut Server, connection: &Packed, said: Vec<Said>) {
    let later: Vec<_> = (0..=ALONE).map(|_| say(connection, "later")).collect();
    soon(server.echo(said.len() + later.len())).await;
    soon(assert_answers(said)).await;
    for later in later {
        assert_eq!(soon(later).await.unwrap().unwrap(), Value::SimpleString("later".to_owned()));
    }
    assert_eq!(connection.0.under_way.load(Relaxed), 0);
}

#[test]
fn a_task_that_ends_with_its_runtime_leaves_nobody_waiting() {
    let (ending, runtime) = (runtime(), runtime());
    let (mut server, connection) = runtime.block_on(Server::connect());
    let said: Vec<_> =
        runtime.block_on(async { (0..ALONE).map(|number| say(&connection, number)).collect() });
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(connection.0.under_way.load(Relaxed), ALONE);

    let queued = connection.clone();
    let mut queued = Box::pin(async move { queued.command(redis::cmd("PING")).await });
    // On one thread the task has no turn before `block_on` returns.
    let at_once =
        ending.block_on(async { poll_fn(|cx| Poll::Ready(queued.as_mut().poll(cx))).await });
    assert!(at_once.is_pending());
    drop(ending);

    runtime.block_on(async {
        assert!(soon(queued).await.unwrap_err().is_io_error());
        assert_usable(&mut server, &connection, said).await;
    });
}

#[test]
fn a_command_outside_a_runtime_leaves_the_connection_usable() {
    let runtime = runtime();
    let (mut server, connection) = runtime.block_on(Server::connect());
    let said: Vec<_> =
        runtime.block_on(async { (0..ALONE).map(|number| say(&connection, number)).collect() });
    runtime.block_on(tokio::task::yield_now());

    let outside = catch_unwind(AssertUnwindSafe(|| {
        let command = pin!(connection.command(redis::cmd("PING")));
        command.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }));
    assert!(outside.is_err());
    runtime.block_on(assert_usable(&mut server, &connection, said));
}
