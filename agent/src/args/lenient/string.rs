//! Strings in either kind of quotes.

use super::Parser;
use crate::args::Repair;

impl Parser<'_> {
    pub(super) fn string(&mut self) -> Result<String, String> {
        let quote = self.peek().unwrap_or('"');
        if quote == '\'' {
            self.repairs.push(Repair::SingleQuotes);
        }
        self.pos += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err("the text ends inside a string".to_owned());
            };
            self.pos += c.len_utf8();
            match c {
                '\\' => self.escape(&mut text)?,
                _ if c == quote => return self.ended(text, quote),
                '\0'..='\x1f' => {
                    self.repairs.push(Repair::ControlCharacter);
                    text.push(c);
                }
                _ => text.push(c),
            }
        }
    }

    /// A string ends where something may follow it; else its quote was meant as part of it.
    fn ended(&mut self, text: String, quote: char) -> Result<String, String> {
        let next = self.text[self.pos..].trim_start().chars().next();
        match next {
            None | Some(',' | ':' | '}' | ']') => Ok(text),
            Some(_) if quote == '"' => {
                Err(self.here("a quote inside a string has to be written `\\\"`; one ends"))
            }
            Some(_) => Err(self.here("strings need double quotes; one ends")),
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), String> {
        let Some(c) = self.peek() else {
            return Err("the text ends inside a string".to_owned());
        };
        self.pos += c.len_utf8();
        text.push(match c {
            '"' | '\\' | '/' => c,
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '\'' => {
                self.repairs.push(Repair::Escape);
                c
            }
            'u' => self.code_point()?,
            _ => {
                let hint = "a backslash has to be written `\\\\`: this is not an escape of JSON";
                return Err(self.here(hint));
            }
        });
        Ok(())
    }

    fn code_point(&mut self) -> Result<char, String> {
        let high = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high).ok_or_else(|| self.here("this is half a character"));
        }
        let low = if self.eat('\\') && self.eat('u') {
            self.four_digits()?
        } else {
            0
        };
        if !(0xdc00..0xe000).contains(&low) {
            return Err(self.here("this is half a character"));
        }
        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        char::from_u32(code).ok_or_else(|| self.here("this is not a character"))
    }

    fn four_digits(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.pos..self.pos + 4);
        let code = digits
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.here("`\\u` needs four hexadecimal digits"))?;
        self.pos += 4;
        Ok(code)
    }
}
