//! The wire protocol of Redis, versions 2 and 3, as far as a proxy needs it: where a message ends,
//! and what a command says.

/// Error of bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(&'static str);

/// Length of the first message in bytes; `None` if it is not complete yet.
pub(super) fn message_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.skip_message() {
        Ok(()) => Ok(Some(reader.at)),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Malformed(what)) => Err(Malformed(what)),
    }
}

/// Returns `true` for a push message, such as a notification.
pub(super) fn is_push(message: &[u8]) -> bool {
    message.first() == Some(&b'>')
}

/// The words of a command, from a message that is complete.
pub(super) fn command_words(message: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut reader = Reader { bytes: message, at: 0 };
    reader.words().map_err(|stop| match stop {
        Stop::Incomplete => Malformed("a command that is cut short"),
        Stop::Malformed(what) => Malformed(what),
    })
}

enum Stop {
    Incomplete,
    Malformed(&'static str),
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_message(&mut self) -> Result<(), Stop> {
        let (kind, rest) = self.header()?;
        let parts = match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => 0,
            b'$' | b'!' | b'=' => return self.text(rest).map(drop),
            b'*' | b'~' | b'>' => length(rest)?.unwrap_or(0),
            b'%' => 2 * length(rest)?.unwrap_or(0),
            // Attributes stand before the message that they belong to.
            b'|' => 2 * length(rest)?.unwrap_or(0) + 1,
            _ => return Err(Stop::Malformed("a message of an unknown type")),
        };
        (0..parts).try_for_each(|_| self.skip_message())
    }

    fn words(&mut self) -> Result<Vec<Vec<u8>>, Stop> {
        let (b'*', rest) = self.header()? else {
            return Err(Stop::Malformed("a command that is not an array"));
        };
        let words = length(rest)?.filter(|words| *words > 0);
        let words = words.ok_or(Stop::Malformed("a command without a name"))?;
        (0..words)
            .map(|_| match self.header()? {
                (b'$', rest) => Ok(self.text(rest)?.to_vec()),
                _ => Err(Stop::Malformed("a word that is not a string")),
            })
            .collect()
    }

    /// The type of a message, and what its first line says after it.
    fn header(&mut self) -> Result<(u8, &'a [u8]), Stop> {
        let left = &self.bytes[self.at..];
        let end = left.windows(2).position(|pair| pair == b"\r\n").ok_or(Stop::Incomplete)?;
        let Some((kind, rest)) = left[..end].split_first() else {
            return Err(Stop::Malformed("a message without a type"));
        };
        self.at += end + 2;
        Ok((*kind, rest))
    }

    /// A text of the length that `header` says; none if it is null.
    fn text(&mut self, header: &[u8]) -> Result<&'a [u8], Stop> {
        let Some(length) = length(header)? else { return Ok(&[]) };
        let left = &self.bytes[self.at..];
        let text = left.get(..length).ok_or(Stop::Incomplete)?;
        match left.get(length..length + 2) {
            None => Err(Stop::Incomplete),
            Some(b"\r\n") => {
                self.at += length + 2;
                Ok(text)
            }
            Some(_) => Err(Stop::Malformed("a text without an end")),
        }
    }
}

/// A length; `None` for null, which is -1.
fn length(text: &[u8]) -> Result<Option<usize>, Stop> {
    if text == b"-1" {
        return Ok(None);
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or(Stop::Malformed("a length that is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each type, of both versions of the protocol, nested ones included.
    const MESSAGES: [&str; 22] = [
        "+OK\r\n",
        "-ERR no\r\n",
        ":-12\r\n",
        "$5\r\nhe\r\no\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        "_\r\n",
        ",1.5\r\n",
        "#t\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "!5\r\nERR x\r\n",
        "=7\r\ntxt:abc\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">3\r\n+message\r\n$1\r\nc\r\n$1\r\nm\r\n",
        "|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n",
        "|0\r\n+OK\r\n",
        "%0\r\n",
        "~0\r\n",
    ];

    #[test]
    fn every_type_of_message_is_measured() {
        for message in MESSAGES {
            let bytes = message.as_bytes();
            assert_eq!(message_length(bytes), Ok(Some(bytes.len())), "{message:?}");
        }
    }

    #[test]
    fn a_message_that_is_cut_short_is_waited_for() {
        for message in MESSAGES {
            for end in 0..message.len() {
                let part = &message.as_bytes()[..end];
                assert_eq!(message_length(part), Ok(None), "{message:?} cut to {end} bytes");
            }
        }
    }

    #[test]
    fn messages_behind_each_other_are_told_apart() {
        let all = MESSAGES.concat();
        let mut left = all.as_bytes();
        for message in MESSAGES {
            let length = message_length(left).unwrap().unwrap();
            assert_eq!(&left[..length], message.as_bytes());
            left = &left[length..];
        }
        assert!(left.is_empty());
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        for bytes in ["PING\r\n", "\r\n", "$x\r\n", "$1\r\nabc", "*?\r\n", "*1\r\nx\r\n", "$-2\r\n"]
        {
            assert!(message_length(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_command_is_read_word_by_word_whatever_is_in_them() {
        let bytes = b"*3\r\n$3\r\nset\r\n$2\r\n\r\n\r\n$3\r\n\0\xff$\r\n";
        let words = command_words(bytes).unwrap();
        assert_eq!(words, [&b"set"[..], b"\r\n", b"\0\xff$"]);
    }

    #[test]
    fn what_is_not_a_command_is_refused() {
        for bytes in ["*0\r\n", "*-1\r\n", "*1\r\n:1\r\n", "+OK\r\n", "*2\r\n$1\r\na\r\n"] {
            assert!(command_words(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn only_pushes_are_pushes() {
        for message in MESSAGES {
            assert_eq!(is_push(message.as_bytes()), message.starts_with('>'), "{message:?}");
        }
    }
}
