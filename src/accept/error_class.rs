//! What an error of accept4(2) means for the accept loop. Pure.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// No connection is waiting (any more).
    Empty,
    /// This one connection failed; the next may be well.
    Retry,
    /// Descriptors or memory have run out. The connection stays in the backlog and the listener
    /// readable, so trying again at once would spin.
    BackOff,
    /// The listener cannot be used: the host has to know.
    Fatal,
}

/// accept(2) asks to treat the network errors as EAGAIN: Linux passes on what happened to the new
/// connection. EPERM comes from firewall rules. An error that no version of the page names backs
/// off, since it may not go away at once.
pub fn classify(errno: i32) -> ErrorClass {
    match errno {
        libc::EAGAIN => ErrorClass::Empty,
        libc::ECONNABORTED
        | libc::EINTR
        | libc::EPROTO
        | libc::EPERM
        | libc::ENETDOWN
        | libc::ENOPROTOOPT
        | libc::EHOSTDOWN
        | libc::ENONET
        | libc::EHOSTUNREACH
        | libc::ENETUNREACH
        | libc::ETIMEDOUT => ErrorClass::Retry,
        libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP => ErrorClass::Fatal,
        _ => ErrorClass::BackOff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_man_page_has_its_class() {
        use ErrorClass::*;
        let table = [
            (libc::EAGAIN, Empty),
            (libc::EWOULDBLOCK, Empty),
            (libc::ECONNABORTED, Retry),
            (libc::EINTR, Retry),
            (libc::EPROTO, Retry),
            (libc::EPERM, Retry),
            (libc::ENETDOWN, Retry),
            (libc::EHOSTUNREACH, Retry),
            (libc::EMFILE, BackOff),
            (libc::ENFILE, BackOff),
            (libc::ENOBUFS, BackOff),
            (libc::ENOMEM, BackOff),
            (libc::ENOSR, BackOff),
            (libc::EBADF, Fatal),
            (libc::EINVAL, Fatal),
            (libc::ENOTSOCK, Fatal),
            (libc::EOPNOTSUPP, Fatal),
        ];
        for (errno, class) in table {
            assert_eq!(classify(errno), class, "errno {errno}");
        }
    }
}
