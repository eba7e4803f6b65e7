use idempotent_runtime::KeyPart;

#[derive(KeyPart)]
enum Channel {
    #[key_part(skip)]
    Email(String),
    #[key_part(name = "Text")]
    Sms(u64),
    #[key_part(rename = Post)]
    Letter,
    #[key_part(rename = "by phone")]
    Call(u64),
}

#[derive(KeyPart)]
enum Payment {
    Card,
    #[key_part(rename = "Card")]
    Transfer,
}

fn main() {}
