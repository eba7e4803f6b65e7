//! Scripts, sent by their hash; a server that has not seen one, or has forgotten it, gets the text.

use redis::Cmd;
use std::sync::LazyLock;

/// A script and its hash.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    hash: String,
}

/// The number of arguments of the longest call, verb and script included.
const ARGUMENTS: usize = 11;

/// Room for the arguments of a call with a small value, in bytes: a command that grows is copied.
const ROOM: usize = 320;

impl Script {
    pub(super) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// A call by hash. `arguments` adds the number of keys, the keys and the arguments.
    pub(super) fn by_hash(&self, arguments: &impl Fn(&mut Cmd)) -> Cmd {
        self.call("EVALSHA", &self.hash, arguments)
    }

    /// A call with the whole text, which the server then keeps.
    pub(super) fn by_text(&self, arguments: &impl Fn(&mut Cmd)) -> Cmd {
        self.call("EVAL", &self.text, arguments)
    }

    fn call(&self, verb: &str, script: &str, arguments: &impl Fn(&mut Cmd)) -> Cmd {
        let mut command = Cmd::with_capacity(ARGUMENTS, verb.len() + script.len() + ROOM);
        command.arg(verb).arg(script);
        arguments(&mut command);
        command
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!(concat!("scripts/", $file))));)*
    };
}

scripts! {
    HEAD = "head.lua";
    LOOK = "look.lua";
    MARK = "mark.lua";
    RENEW = "renew.lua";
    SWAP = "swap.lua";
    TOUCH = "touch.lua";
}
