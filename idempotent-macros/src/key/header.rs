//! Names of HTTP headers in the place of a key: a layer reads them, and the function has no `key`.

use proc_macro2::Ident;

use crate::synonyms::snake_case;

/// The headers that the layer of `idempotent-http` reads by itself.
const STANDARD: [&str; 3] = ["idempotency-key", "idempotent-token", "x-idempotency-key"];

/// A header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// In lower case; empty for the headers as a whole.
    name: String,
    /// It can be nothing else: the user wrote `headers` before it, or `X-`.
    is_certain: bool,
}

impl Header {
    /// Recognises a text with hyphens: `X-Request-Id`, `headers.Idempotency-Key`.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let text = text.replace(' ', "");
        let name = ["headers.", "header.", "headers:", "header:"]
            .iter()
            .find_map(|start| text.strip_prefix(start));
        let words: Vec<_> = name.unwrap_or(&text).split('-').collect();
        let is_word = |word: &&str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let is_train = words.iter().all(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
        let lower = words.join("-").to_lowercase();
        let is_header = name.is_some() || is_train || is_known(&lower);
        let is_header = words.len() > 1 && words.iter().all(is_word) && is_header;
        is_header.then_some(Self { name: lower, is_certain: true })
    }

    /// Recognises the root of a path, and its first field: `headers`, `headers.idempotency_key`, `idempotency_key`.
    pub(crate) fn of_path(root: &str, field: Option<&str>) -> Option<Self> {
        let hyphens = |name: &str| snake_case(name).trim_matches('_').replace('_', "-");
        let root = hyphens(root);
        match (root.as_str(), field) {
            ("headers" | "header" | "http-headers", field) => {
                Some(Self { name: field.map(hyphens).unwrap_or_default(), is_certain: true })
            }
            (root, None) if is_known(root) => {
                Some(Self { name: root.to_owned(), is_certain: root.starts_with("x-") })
            }
            _ => None,
        }
    }

    /// Returns `true` for something that can be nothing but a header.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// A parameter for the header, and what its caller does.
    pub(super) fn as_parameter(&self, name: &Ident) -> (String, String) {
        let parameter = match snake_case(self.name.trim_start_matches("x-")).as_str() {
            "" if name == "key" => "idempotency_key".to_owned(),
            "" => name.to_string(),
            parameter => parameter.to_owned(),
        };
        let by_caller = format!(
            "read the header in the caller, and pass it as a parameter `{parameter}: String`"
        );
        (parameter, by_caller)
    }

    /// Help for the argument `name`.
    pub(crate) fn help(&self, name: &Ident) -> String {
        if name != "key" {
            let (parameter, by_caller) = self.as_parameter(name);
            return format!("{by_caller}: `{name} = {parameter}`");
        }
        let (parameter, by_caller) = self.as_parameter(name);
        format!("{}; without it, {by_caller}: `{name} = {parameter}`", self.layer())
    }

    /// Help for the layer that reads the header.
    pub(super) fn layer(&self) -> String {
        let (from, headers) = match self.name.as_str() {
            "" => ("the header `Idempotency-Key`", String::new()),
            header if STANDARD.contains(&header) => ("this header", String::new()),
            header => {
                ("this header", format!(".headers([http::HeaderName::from_static(\"{header}\")])"))
            }
        };
        format!(
            "leave `key` out, and add the layer of `idempotent-http`, which takes the key from {from}: \
             `.layer(idempotent_http::IdempotencyLayer::new(&instance, \"shop\"){headers})`"
        )
    }
}

/// Returns `true` for names that requests are told apart by, in lower case with hyphens.
fn is_known(name: &str) -> bool {
    let known = ["request-id", "correlation-id", "message-id", "trace-id", "idempotence-key"];
    STANDARD.contains(&name) || known.contains(&name) || name.starts_with("x-")
}

#[cfg(test)]
mod tests {
    use quote::format_ident;

    use super::*;

    #[test]
    fn headers_are_told_by_their_names() {
        for (text, name) in [
            ("Idempotency-Key", "idempotency-key"),
            ("Idempotency - Key", "idempotency-key"),
            ("x-request-id", "x-request-id"),
            ("headers.Payment-Token", "payment-token"),
            ("Payment-Token", "payment-token"),
        ] {
            let header = Header::of_text(text).map(|header| header.name);
            assert_eq!(header.as_deref(), Some(name), "{text}");
        }
        for text in ["nightly-report", "a - b", "tenant-1", "Report", "order:{id}-x"] {
            assert_eq!(Header::of_text(text), None, "{text}");
        }
        let header = |root, field| Header::of_path(root, field).map(|header| header.name);
        assert_eq!(header("idempotencyKey", None).as_deref(), Some("idempotency-key"));
        assert_eq!(header("headers", Some("x_token")).as_deref(), Some("x-token"));
        assert_eq!(header("headers", None).as_deref(), Some(""));
        assert_eq!(header("order_id", None), None);
        assert_eq!(header("request_id", Some("id")), None);
    }

    #[test]
    fn the_layer_reads_other_headers_by_their_names() {
        let help = |name: &str, text| Header::of_text(text).unwrap().help(&format_ident!("{name}"));
        assert!(help("key", "Idempotency-Key").contains("takes the key from this header"));
        assert!(help("key", "X-Request-Id").contains(
            ".headers([http::HeaderName::from_static(\"x-request-id\")]))`; without it, "
        ));
        assert!(help("scope", "X-Tenant-Id").ends_with("`tenant_id: String`: `scope = tenant_id`"));
    }
}
