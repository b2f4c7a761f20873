//! Jute, the encoding of ZooKeeper's protocol: numbers in network order, texts and lists behind their length.

/// A packet that is being written.
pub struct Writer(Vec<u8>);

impl Writer {
    /// With room for its length.
    pub fn packet() -> Writer {
        Writer(vec![0; 4])
    }

    pub fn int(&mut self, number: i32) {
        self.0.extend(number.to_be_bytes());
    }

    pub fn long(&mut self, number: i64) {
        self.0.extend(number.to_be_bytes());
    }

    pub fn flag(&mut self, flag: bool) {
        self.0.push(flag.into());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as i32);
        self.0.extend(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// The packet, with its length in front.
    pub fn finish(self) -> Vec<u8> {
        let mut packet = self.0;
        let length = (packet.len() - 4) as i32;
        packet[..4].copy_from_slice(&length.to_be_bytes());
        packet
    }
}

/// The rest of a packet that is being read.
pub struct Reader<'a>(&'a [u8]);

/// The packet is not an answer of ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Reader<'a> {
    pub fn new(packet: &'a [u8]) -> Reader<'a> {
        Reader(packet)
    }

    pub fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn flag(&mut self) -> Result<bool, Malformed> {
        self.array::<1>().map(|[byte]| byte != 0)
    }

    /// A length of -1 means nothing.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        match self.int()? {
            -1 => Ok(&[]),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
                self.0 = rest;
                Ok(bytes)
            }
        }
    }

    /// Names may be anything in ZooKeeper: those of redlock are text.
    pub fn text(&mut self) -> Result<String, Malformed> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Ends where the packet does, whatever length the list says it has.
    pub fn texts(&mut self) -> Result<Vec<String>, Malformed> {
        let length = self.int()?;
        (0..length).map(|_| self.text()).collect()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }
}

#[test]
fn what_is_written_is_read_and_no_packet_is_too_short() {
    let mut writer = Writer::packet();
    writer.int(-7);
    writer.long(1 << 40);
    writer.flag(true);
    writer.text("été");
    writer.int(2);
    writer.text("a");
    writer.text("");
    let packet = writer.finish();
    let body = &packet[4..];
    assert_eq!(packet[..4], (body.len() as i32).to_be_bytes());
    let read = |packet: &[u8]| -> Result<_, Malformed> {
        let mut reader = Reader::new(packet);
        Ok((reader.int()?, reader.long()?, reader.flag()?, reader.text()?, reader.texts()?))
    };
    let names = vec!["a".to_owned(), String::new()];
    assert_eq!(read(body), Ok((-7, 1 << 40, true, "été".to_owned(), names)));
    for length in 0..body.len() {
        assert_eq!(read(&body[..length]), Err(Malformed));
    }
    // The length of a list is as long as it likes to be, and that of a text less than nothing.
    assert_eq!(Reader::new(&i32::MAX.to_be_bytes()).texts(), Err(Malformed));
    assert_eq!(Reader::new(&(-2_i32).to_be_bytes()).bytes(), Err(Malformed));
    assert_eq!(Reader::new(&(-1_i32).to_be_bytes()).bytes(), Ok(&[][..]));
}
