//! What an epoll event is about, packed into its 64 bits of user data: never a pointer, so that an
//! event for something that is gone can be told and dropped.

/// The library's own descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Bell,
    Guard,
    /// A listener, by its number in the herd.
    Listener(u16),
    /// The epoll set that holds all listeners.
    Listeners,
    /// Connections that another worker passed on.
    Queue,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    Own(Source),
    /// A registration of the host's: which one, and which use of its place.
    Host {
        index: u32,
        generation: u32,
    },
}

/// Indexes from here on are the library's own sources.
const OWN: u32 = 0xffff_0000;
const BELL: u32 = 0xffff_ffff;
const GUARD: u32 = 0xffff_fffe;
const LISTENERS: u32 = 0xffff_fffd;
const QUEUE: u32 = 0xffff_fffc;

/// Registrations have indexes below this.
pub const INDEX_LIMIT: u32 = OWN;
/// Listeners have numbers below this.
pub const LISTENER_LIMIT: usize = 0xff00;

impl Tag {
    pub fn encode(self) -> u64 {
        let (index, generation) = match self {
            Tag::Own(Source::Bell) => (BELL, 0),
            Tag::Own(Source::Guard) => (GUARD, 0),
            Tag::Own(Source::Listeners) => (LISTENERS, 0),
            Tag::Own(Source::Queue) => (QUEUE, 0),
            Tag::Own(Source::Listener(number)) => (OWN + u32::from(number), 0),
            Tag::Host { index, generation } => (index, generation),
        };
        u64::from(generation) << 32 | u64::from(index)
    }

    pub fn decode(bits: u64) -> Tag {
        let index = bits as u32;
        match index {
            BELL => Tag::Own(Source::Bell),
            GUARD => Tag::Own(Source::Guard),
            LISTENERS => Tag::Own(Source::Listeners),
            QUEUE => Tag::Own(Source::Queue),
            OWN.. => Tag::Own(Source::Listener((index - OWN) as u16)),
            _ => Tag::Host { index, generation: (bits >> 32) as u32 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_as_they_were() {
        for tag in [
            Tag::Own(Source::Bell),
            Tag::Own(Source::Guard),
            Tag::Own(Source::Listeners),
            Tag::Own(Source::Queue),
            Tag::Own(Source::Listener(0)),
            Tag::Own(Source::Listener(LISTENER_LIMIT as u16 - 1)),
            Tag::Host { index: 0, generation: 0 },
            Tag::Host { index: INDEX_LIMIT - 1, generation: u32::MAX },
        ] {
            assert_eq!(Tag::decode(tag.encode()), tag);
        }
    }
}
