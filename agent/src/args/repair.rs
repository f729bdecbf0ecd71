//! What is done to arguments before they fit.

use std::fmt;

/// A difference between what a model wrote and what its tool was given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repair {
    /// The text stood in a fenced block.
    Fence,
    TrailingComma,
    SingleQuotes,
    BareKey,
    /// A newline or another control character stood in a string as it is.
    ControlCharacter,
    /// `\'`, which JSON does not know.
    Escape,
    /// `True`, `False` or `None`.
    PythonLiteral,
    /// Closing brackets were missing at the end.
    Unclosed,
    /// A JSON text in a string stood in the place of what it holds.
    Quoted {
        at: String,
    },
    /// The arguments were one level too deep, beneath this name.
    Wrapped {
        name: String,
    },
    /// A number or a truth value was written as a string.
    Text {
        at: String,
    },
    /// `null` for a property that may be left out.
    Null {
        at: String,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fence => f.write_str("a code fence around them was taken off"),
            Self::TrailingComma => f.write_str("a trailing comma was taken out"),
            Self::SingleQuotes => f.write_str("single quotes were taken for double ones"),
            Self::BareKey => f.write_str("names without quotes were quoted"),
            Self::ControlCharacter => {
                f.write_str("a line break or control character in a string was escaped")
            }
            Self::Escape => f.write_str("`\\'` was taken for `'`"),
            Self::PythonLiteral => {
                f.write_str("`True`, `False` or `None` was taken for `true`, `false` or `null`")
            }
            Self::Unclosed => f.write_str("brackets were closed at the end"),
            Self::Quoted { at } => write!(f, "the string{} was read as JSON", Place(at)),
            Self::Wrapped { name } => write!(f, "they were taken out of `{name}`"),
            Self::Text { at } => write!(f, "the string{} was read as its value", Place(at)),
            Self::Null { at } => write!(f, "the null{} was left out", Place(at)),
        }
    }
}

/// Where, if it is not the whole.
struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " at `{}`", self.0)
        }
    }
}
