use super::*;
use redis::RedisFuture;
use redis::aio::ConnectionLike;
use std::task::{Context, Poll, Waker};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// A server that does not answer, until its client is told to stop waiting.
#[derive(Clone, Default)]
struct Silent(Arc<Notify>);

impl ConnectionLike for Silent {
    fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async {
            self.0.notified().await;
            Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into())
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        unreachable!()
    }

    fn get_db(&self) -> i64 {
        0
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_connection_is_replaced_also_if_its_command_fails_on_another_runtime() {
    let server = Silent::default();
    let second = Duration::from_secs(1);
    let timeouts = Timeouts { connect: second, response: second };
    let target = Target::Given(Box::new(server.clone()));
    let links = Links::new(target, timeouts, Eviction::Allowed);
    let (callers, keepers) = (runtime(), runtime());
    let mut sent = Box::pin(links.command(redis::cmd("PING")));
    {
        let _entered = callers.enter();
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(sent.as_mut().poll(&mut context), Poll::Pending));
    }
    let link = Arc::clone(&links.by_runtime.load()[&callers.handle().id()]);
    assert!(link.current.load().is_some());
    // Its caller has gone: the keeper waits for the answer.
    server.0.notify_one();
    assert!(keepers.block_on(sent).is_err());
    assert!(link.current.load().is_none(), "the connection of the callers is still in use");
}
