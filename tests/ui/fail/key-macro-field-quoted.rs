use idempotent_runtime::{Error, idempotent};

struct Request {
    id: u64,
    user: u64,
}

macro_rules! create {
    ($path:ident, $tuple:ident, $text:ident, $template:ident, $param:ident) => {
        #[idempotent(key = "$param.id")]
        async fn $path($param: Request) -> Result<u64, Error> {
            Ok($param.id)
        }

        #[idempotent(key = "($param.id, $param.user)")]
        async fn $tuple($param: Request) -> Result<u64, Error> {
            Ok($param.id + $param.user)
        }

        #[idempotent(key = "order:$param.id")]
        async fn $text($param: Request) -> Result<u64, Error> {
            Ok($param.id)
        }

        #[idempotent(key = "order:{$param.id}:{$param.user}")]
        async fn $template($param: Request) -> Result<u64, Error> {
            Ok($param.id + $param.user)
        }
    };
}

create!(path, tuple, text, template, req);

fn main() {}
