//! A stream in the Redis that has the records: message and record are one step.

use super::error::SendError;
use super::sent::Sent;
use super::target::{Sending, Target};
use idempotent_runtime::store::{Effect, RedisStore};

/// Adds an entry. Arguments: the id of the message, then names and values of fields.
///
/// It refuses where it could fail: after a failure the outcome is unknown to every client, and a command that
/// answers with an error has written nothing.
const ADD: &str = "
local kind = redis.call('TYPE', KEYS[1])
kind = type(kind) == 'table' and kind.ok or kind
if kind ~= 'stream' and kind ~= 'none' then
  return refuse('the key of the stream holds a ' .. kind)
end
-- Lua has no room for more on its stack.
if #ARGV > 7000 then
  return refuse('the message has more than 3498 headers')
end
local position = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, 2))
if type(position) == 'table' then
  return refuse(position.err)
end
return cjson.encode({ id = ARGV[1], receipt = { position = position } })";

/// The field with the payload.
const PAYLOAD: &str = "payload";
/// The start of a field with a header, before its name.
const HEADER: &str = "header:";

/// A stream of the Redis in which the instance has its records.
///
/// The record and the entry are written by one script: there is no moment in which one is there without
/// the other, so an entry is added once per business id for as long as the record is kept.
///
/// ```no_run
/// use idempotent_queue::Producer;
/// use idempotent_queue::producer::RedisStream;
/// use idempotent_runtime::Idempotency;
/// use idempotent_runtime::store::RedisStore;
///
/// # async fn send() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1/").await?;
/// let idem = Idempotency::builder().store(store.clone()).build()?;
/// let orders = Producer::new(&idem, RedisStream::new(&store, "orders"));
/// orders.send(42, "lamp").await?;
/// # Ok(()) }
/// ```
///
/// An entry has the field `payload`, and a field `header:<name>` for each header, among them
/// `header:idempotency-key` with the id of the message. In a cluster the record lies in the slot of the
/// stream. An instance that encrypts values cannot have them written by a script, and is refused: publish
/// to the stream in two steps there.
#[derive(Clone, Debug)]
pub struct RedisStream {
    store: RedisStore,
    name: String,
    add: Effect,
}

impl RedisStream {
    /// The stream `name` in the Redis of this store, which is that of the producer's instance.
    pub fn new(store: &RedisStore, name: impl Into<String>) -> Self {
        Self { store: store.clone(), name: name.into(), add: Effect::new(ADD) }
    }
}

impl Target for RedisStream {
    fn destination(&self) -> &str {
        &self.name
    }

    async fn send(&self, sending: Sending<'_>) -> Result<Sent, SendError> {
        let message = sending.message();
        let mut add = self.add.clone().key(&*self.name).arg(message.id());
        for (name, value) in message.wire_headers() {
            add = add.arg(format_args!("{HEADER}{name}")).arg(value);
        }
        let add = add.arg(PAYLOAD).arg_bytes(message.payload());
        sending.send_in_one_step(&self.store, hash_tag(&self.name), &add).await
    }
}

/// The part of a key by which a cluster chooses its slot: what is in the first braces, or all of it.
fn hash_tag(key: &str) -> &str {
    let braced = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    braced.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_lies_in_the_slot_of_the_stream() {
        assert_eq!(hash_tag("orders"), "orders");
        assert_eq!(hash_tag("shop:{acme}:orders"), "acme");
        assert_eq!(hash_tag("{}orders"), "{}orders");
        assert_eq!(hash_tag("orders}{a}{b}"), "a");
    }
}
