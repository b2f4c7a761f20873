//! The requests and answers of ZooKeeper that are used: apache/zookeeper, zookeeper-jute/src/main/resources/zookeeper.jute.

use super::jute::{Malformed, Reader, Writer};
use super::node::{Access, Kind, Stat, stat};

/// A request to a server.
#[derive(Clone, Debug)]
pub enum Operation {
    Create {
        path: String,
        data: Vec<u8>,
        access: Access,
        kind: Kind,
    },
    Delete {
        path: String,
    },
    /// Also watches for a change, if that is wanted: a node that is not there as well.
    Exists {
        path: String,
        watch: bool,
    },
    Data {
        path: String,
    },
    /// Changes the data, if they have this version.
    SetData {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    Children {
        path: String,
    },
    /// Checks that the node is there with this version of its data: within [`Operation::Multi`] only.
    Check {
        path: String,
        version: i32,
    },
    /// All of these or none.
    Multi(Vec<Operation>),
    /// The server catches up with its leader.
    Sync {
        path: String,
    },
    /// Ends the session.
    Close,
}

/// The version in a check that takes any data.
pub const ANY_VERSION: i32 = -1;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const SYNC: i32 = 9;
const GET_CHILDREN_2: i32 = 12;
const CHECK: i32 = 13;
const MULTI: i32 = 14;
const CREATE_CONTAINER: i32 = 19;
const CLOSE_SESSION: i32 = -11;
const ERROR: i32 = -1;

/// Why a request was not carried out: `KeeperException.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    pub const UNIMPLEMENTED: Code = Code(-6);
    pub const NO_NODE: Code = Code(-101);
    pub const NO_AUTH: Code = Code(-102);
    pub const BAD_VERSION: Code = Code(-103);
    pub const NODE_EXISTS: Code = Code(-110);
    pub const SESSION_EXPIRED: Code = Code(-112);
    pub const AUTH_FAILED: Code = Code(-115);
    pub const SESSION_MOVED: Code = Code(-118);
    /// Something before it in the same multi failed.
    const RUNTIME_INCONSISTENCY: Code = Code(-2);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The path, with its number.
    Created(String),
    Stat(Stat),
    Data(Vec<u8>, Stat),
    Children(Vec<String>, Stat),
    /// One for each operation.
    Multi(Vec<Answer>),
}

impl Operation {
    pub fn children(path: &str) -> Operation {
        Operation::Children { path: path.to_owned() }
    }

    pub fn check(path: &str, version: i32) -> Operation {
        Operation::Check { path: path.to_owned(), version }
    }

    fn code(&self) -> i32 {
        match self {
            Operation::Create { kind: Kind::Container, .. } => CREATE_CONTAINER,
            Operation::Create { .. } => CREATE,
            Operation::Delete { .. } => DELETE,
            Operation::Exists { .. } => EXISTS,
            Operation::Data { .. } => GET_DATA,
            Operation::SetData { .. } => SET_DATA,
            Operation::Children { .. } => GET_CHILDREN_2,
            Operation::Check { .. } => CHECK,
            Operation::Multi(_) => MULTI,
            Operation::Sync { .. } => SYNC,
            Operation::Close => CLOSE_SESSION,
        }
    }

    /// As a packet, with this number.
    pub fn packet(&self, number: i32) -> Vec<u8> {
        let mut writer = Writer::packet();
        writer.int(number);
        writer.int(self.code());
        self.write(&mut writer);
        writer.finish()
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Operation::Create { path, data, access, kind } => {
                writer.text(path);
                writer.bytes(data);
                access.write(writer);
                writer.int(kind.flags());
            }
            Operation::Delete { path } => {
                writer.text(path);
                writer.int(ANY_VERSION);
            }
            Operation::Exists { path, watch } => {
                writer.text(path);
                writer.flag(*watch);
            }
            Operation::Data { path } | Operation::Children { path } => {
                writer.text(path);
                writer.flag(false);
            }
            Operation::SetData { path, data, version } => {
                writer.text(path);
                writer.bytes(data);
                writer.int(*version);
            }
            Operation::Check { path, version } => {
                writer.text(path);
                writer.int(*version);
            }
            Operation::Multi(operations) => {
                for operation in operations {
                    writer.int(operation.code());
                    writer.flag(false);
                    writer.int(-1);
                    operation.write(writer);
                }
                writer.int(-1);
                writer.flag(true);
                writer.int(-1);
            }
            Operation::Sync { path } => writer.text(path),
            Operation::Close => {}
        }
    }

    /// The answer to this operation; the `Err` inside says why it was not carried out.
    pub fn answer(&self, reader: &mut Reader) -> Result<Result<Answer, Code>, Malformed> {
        Ok(Ok(match self {
            Operation::Create { .. } => Answer::Created(reader.text()?),
            Operation::Exists { .. } | Operation::SetData { .. } => Answer::Stat(stat(reader)?),
            Operation::Data { .. } => Answer::Data(reader.bytes()?.to_vec(), stat(reader)?),
            Operation::Children { .. } => Answer::Children(reader.texts()?, stat(reader)?),
            Operation::Multi(operations) => return multi(operations, reader),
            Operation::Delete { .. }
            | Operation::Check { .. }
            | Operation::Sync { .. }
            | Operation::Close => Answer::Done,
        }))
    }
}

/// Either each operation has its answer, or each has an error, of which one is the reason.
fn multi(operations: &[Operation], reader: &mut Reader) -> Result<Result<Answer, Code>, Malformed> {
    let (mut answers, mut reason) = (Vec::new(), None);
    for operation in operations {
        let (kind, _is_last, _error) = (reader.int()?, reader.flag()?, reader.int()?);
        if kind == ERROR {
            let code = Code(reader.int()?);
            if code != Code(0) && code != Code::RUNTIME_INCONSISTENCY {
                reason = reason.or(Some(code));
            }
        } else if kind == operation.code() {
            answers.extend(operation.answer(reader)?);
        } else {
            return Err(Malformed);
        }
    }
    let is_whole = answers.len() == operations.len();
    Ok(match reason {
        Some(code) => Err(code),
        None if is_whole => Ok(Answer::Multi(answers)),
        None => Err(Code::RUNTIME_INCONSISTENCY),
    })
}

/// Reads a packet as the answer to each operation.
#[cfg(any(test, fuzzing))]
pub fn read_packet(packet: &[u8]) {
    let (path, data) = (String::new(), Vec::new());
    let create =
        Operation::Create { path: path.clone(), data, access: Access::Everybody, kind: Kind::Ephemeral };
    let exists = Operation::Exists { path: path.clone(), watch: false };
    let single = [create, exists, Operation::Data { path: path.clone() }, Operation::Children { path }];
    let multi = Operation::Multi(single.to_vec());
    single.iter().chain([&multi]).for_each(|operation| _ = operation.answer(&mut Reader::new(packet)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create() -> Operation {
        let (path, data) = ("/X/a".to_owned(), Vec::new());
        Operation::Create { path, data, access: Access::Everybody, kind: Kind::Sequential }
    }

    /// The part of a multi's answer for one operation.
    fn part(writer: &mut Writer, kind: i32) {
        writer.int(kind);
        writer.flag(false);
        writer.int(0);
    }

    #[test]
    fn a_multi_is_done_as_a_whole_or_says_why_not() {
        let multi = Operation::Multi(vec![create(), Operation::Delete { path: "/Y".to_owned() }]);
        let mut done = Writer::packet();
        part(&mut done, CREATE);
        done.text("/X/a0000000001");
        part(&mut done, DELETE);
        let created = Answer::Created("/X/a0000000001".to_owned());
        let answer = multi.answer(&mut Reader::new(&done.finish()[4..]));
        assert_eq!(answer, Ok(Ok(Answer::Multi(vec![created, Answer::Done]))));

        let mut failed = Writer::packet();
        for code in [0, -101] {
            part(&mut failed, ERROR);
            failed.int(code);
        }
        let answer = multi.answer(&mut Reader::new(&failed.finish()[4..]));
        assert_eq!(answer, Ok(Err(Code::NO_NODE)));

        let mut other = Writer::packet();
        part(&mut other, DELETE);
        part(&mut other, DELETE);
        assert_eq!(multi.answer(&mut Reader::new(&other.finish()[4..])), Err(Malformed));
    }

    #[test]
    fn packets_are_those_of_the_java_client() {
        let packet = create().packet(3);
        let expected: &[&[u8]] = &[
            &[0, 0, 0, 53, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 4],
            b"/X/a",
            &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 31, 0, 0, 0, 5],
            b"world",
            &[0, 0, 0, 6],
            b"anyone",
            &[0, 0, 0, 3],
        ];
        let expected = expected.concat();
        assert_eq!(packet[4..], expected[4..]);
        assert_eq!(
            packet.len() - 4,
            i32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]) as usize
        );
    }
}
