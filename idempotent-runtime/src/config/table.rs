//! The macro behind the table of settings.

/// Declares a struct of settings from a table with one entry for each.
///
/// An entry has the documentation of its field, the field with its type and default, its name in
/// files, its setter with the type of the argument, and the check of its value. The name in the
/// environment follows from the name in files, and the reading and writing of values from the type
/// of the field (see [`Value`](super::values::Value)).
///
/// `also_read` lists further names in files and the environment, which the draft interprets.
macro_rules! settings {
    (
        $(#[$struct_meta:meta])*
        pub struct $Config:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $Type:ty = $default:expr => {
                    name: $name:literal,
                    set: $setter:ident($Argument:ty),
                    check: $check:expr,
                }
            )+
        }
        also_read: [$($other:literal),+ $(,)?]
    ) => {
        $(#[$struct_meta])*
        pub struct $Config {
            $($(#[doc = $doc])+ pub $field: $Type,)+
        }

        impl Default for $Config {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $Config {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $setter(mut self, $field: $Argument) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }

        /// The names in files: those of the fields, in their order, then the others.
        pub(super) const FILE_NAMES: &[&str] = &[$($name,)+ $($other,)+];

        /// Puts the settings that a draft has into a configuration.
        pub(super) fn put(draft: &Draft, config: &mut $Config) -> Result<(), ConfigError> {
            $(
                if let Some(value) = draft.read(Setting($name))? {
                    config.$field = value;
                }
            )+
            Ok(())
        }

        /// Checks every field. `name` gives the name that the user wrote for a setting.
        pub(super) fn check(
            config: &$Config,
            name: &dyn Fn(Setting) -> String,
        ) -> Result<(), ConfigError> {
            let checked = Checked { config, name };
            $(
                let found: Result<(), Refused> = $check(&config.$field, &checked);
                found.map_err(|refused| refused.under(name(Setting($name))))?;
            )+
            Ok(())
        }

        /// Writes every field that cannot be left out, under its name in files.
        pub(super) fn write<S: Serializer>(
            config: &$Config,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            let written = 0 $(+ usize::from(config.$field.is_written()))+;
            let mut out = serializer.serialize_struct(stringify!($Config), written)?;
            $(config.$field.write($name, &mut out)?;)+
            out.end()
        }

        /// Name in code, name in files and documentation of every field.
        #[cfg(test)]
        pub(super) const DOCUMENTED: &[(&str, &str, &str)] =
            &[$((stringify!($field), $name, concat!($($doc, "\n"),+)),)+];
    };
}
