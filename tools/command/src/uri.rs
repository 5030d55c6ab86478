//! A path <-> its URI, with percent encoding. RFC 3986 has the characters that stay.

use std::path::{Path, PathBuf};

/// A path as a URI reference: relative paths stay relative.
pub fn reference(path: &str) -> String {
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_string() };
    let encoded = encoded(&path);
    // A colon in the first segment would end a scheme.
    let first = encoded.split('/').next().unwrap_or("");
    match () {
        () if path.starts_with('/') => format!("file://{encoded}"),
        () if cfg!(windows) && path.as_bytes().get(1) == Some(&b':') => format!("file:///{encoded}"),
        () if first.contains(':') => format!("./{encoded}"),
        () => encoded,
    }
}

fn encoded(path: &str) -> String {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
    let mut out = String::new();
    for byte in path.bytes() {
        match stays(byte) {
            true => out.push(char::from(byte)),
            false => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// The path of a `file:` URI of this machine.
pub fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = decoded(rest).filter(|path| path.starts_with('/'))?;
    // `/c:/file` on Windows.
    let drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    Some(Path::new(if drive { &path[1..] } else { &path }).to_path_buf())
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_uris_turn_into_each_other() {
        assert_eq!(reference("a folder/50%#ü.pica"), "a%20folder/50%25%23%C3%BC.pica");
        assert_eq!(reference("a:b.pica"), "./a:b.pica");
        if cfg!(unix) {
            let name = "/tmp/a b/50%/ü?.pica";
            assert_eq!(reference(name), "file:///tmp/a%20b/50%25/%C3%BC%3F.pica");
            assert_eq!(path(&reference(name)), Some(PathBuf::from(name)));
            assert_eq!(path("file://localhost/a%2Fb"), Some(PathBuf::from("/a/b")));
        }
        for other in ["untitled:Untitled-1", "file://server/share", "file:///a%2", "file:///a%zz", "file:///a%ff"] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
