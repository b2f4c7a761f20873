//! The messages of etcd's v3 API, with the fields that are used: etcd-io/etcd, api/etcdserverpb/rpc.proto.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Header {
    /// Of the whole store, when the request was carried out.
    #[prost(int64, tag = 3)]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    #[prost(int64, tag = 2)]
    pub create_revision: i64,
    #[prost(bytes = "vec", tag = 5)]
    pub value: Vec<u8>,
    #[prost(int64, tag = 6)]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = 2)]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = 3)]
    pub limit: i64,
    /// See [`ASCENDING`] and [`DESCENDING`].
    #[prost(int32, tag = 5)]
    pub sort_order: i32,
    /// See [`BY_CREATE_REVISION`].
    #[prost(int32, tag = 6)]
    pub sort_target: i32,
    #[prost(bool, tag = 8)]
    pub keys_only: bool,
    #[prost(int64, tag = 13)]
    pub max_create_revision: i64,
}

pub const ASCENDING: i32 = 1;
pub const DESCENDING: i32 = 2;
pub const BY_CREATE_REVISION: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = 1)]
    pub header: Option<Header>,
    #[prost(message, repeated, tag = 2)]
    pub kvs: Vec<KeyValue>,
    /// There are more keys than the limit.
    #[prost(bool, tag = 3)]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = 2)]
    pub value: Vec<u8>,
    #[prost(int64, tag = 3)]
    pub lease: i64,
    /// The key keeps its value.
    #[prost(bool, tag = 5)]
    pub ignore_value: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRequest {
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = 2)]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// See [`EQUAL`] and [`LESS`].
    #[prost(int32, tag = 1)]
    pub result: i32,
    /// See [`CREATE_REVISION`].
    #[prost(int32, tag = 2)]
    pub target: i32,
    #[prost(bytes = "vec", tag = 3)]
    pub key: Vec<u8>,
    #[prost(oneof = "CompareWith", tags = "5, 8")]
    pub with: Option<CompareWith>,
    /// Every key up to here has to compare so. A range without keys compares as one whose revision is 0.
    #[prost(bytes = "vec", tag = 64)]
    pub range_end: Vec<u8>,
}

/// Also when it is 0, it has to be there.
#[derive(Clone, PartialEq, Oneof)]
pub enum CompareWith {
    #[prost(int64, tag = 5)]
    CreateRevision(i64),
    #[prost(int64, tag = 8)]
    Lease(i64),
}

pub const EQUAL: i32 = 0;
pub const LESS: i32 = 2;
pub const CREATE_REVISION: i32 = 1;
pub const LEASE: i32 = 4;

#[derive(Clone, PartialEq, Message)]
pub struct TxnOperation {
    #[prost(oneof = "OperationKind", tags = "1, 2, 3")]
    pub kind: Option<OperationKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum OperationKind {
    #[prost(message, tag = 1)]
    Range(RangeRequest),
    #[prost(message, tag = 2)]
    Put(PutRequest),
    #[prost(message, tag = 3)]
    Delete(DeleteRequest),
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = 1)]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = 2)]
    pub success: Vec<TxnOperation>,
    #[prost(message, repeated, tag = 3)]
    pub failure: Vec<TxnOperation>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = 1)]
    pub header: Option<Header>,
    /// The comparisons were true.
    #[prost(bool, tag = 2)]
    pub succeeded: bool,
    #[prost(message, repeated, tag = 3)]
    pub answers: Vec<OperationAnswer>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OperationAnswer {
    #[prost(oneof = "OperationAnswerKind", tags = "1")]
    pub kind: Option<OperationAnswerKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum OperationAnswerKind {
    #[prost(message, tag = 1)]
    Range(RangeResponse),
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = 1)]
    pub ttl: i64,
    #[prost(int64, tag = 2)]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {}

/// Of LeaseRevoke, LeaseKeepAlive and LeaseTimeToLive.
#[derive(Clone, PartialEq, Message)]
pub struct LeaseRequest {
    #[prost(int64, tag = 1)]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseKeepAliveResponse {
    /// In seconds; 0 or less when there is no such lease.
    #[prost(int64, tag = 3)]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseTimeToLiveResponse {
    /// What is left, in seconds; less than 0 when there is no such lease.
    #[prost(int64, tag = 3)]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    #[prost(message, optional, tag = 1)]
    pub create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = 1)]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = 2)]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = 3)]
    pub start_revision: i64,
    /// See [`NO_PUT`].
    #[prost(int32, repeated, tag = 5)]
    pub filters: Vec<i32>,
}

/// Only deletions are told.
pub const NO_PUT: i32 = 0;
/// The kind of an event; the other one is a put.
pub const DELETE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(bool, tag = 4)]
    pub canceled: bool,
    #[prost(message, repeated, tag = 11)]
    pub events: Vec<WatchEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchEvent {
    /// See [`DELETE`].
    #[prost(int32, tag = 1)]
    pub kind: i32,
    #[prost(message, optional, tag = 2)]
    pub kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateRequest {
    #[prost(string, tag = 1)]
    pub name: String,
    #[prost(string, tag = 2)]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateResponse {
    #[prost(string, tag = 2)]
    pub token: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(string, tag = 2)]
    pub version: String,
    /// The id of the leader; 0 when there is none.
    #[prost(uint64, tag = 4)]
    pub leader: u64,
    /// Alarms, as text.
    #[prost(string, repeated, tag = 8)]
    pub errors: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MemberListRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct MemberListResponse {
    #[prost(message, repeated, tag = 2)]
    pub members: Vec<ClusterMember>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClusterMember {
    #[prost(uint64, tag = 1)]
    pub id: u64,
}

impl TxnOperation {
    pub fn range(request: RangeRequest) -> TxnOperation {
        TxnOperation { kind: Some(OperationKind::Range(request)) }
    }

    pub fn put(request: PutRequest) -> TxnOperation {
        TxnOperation { kind: Some(OperationKind::Put(request)) }
    }

    pub fn delete(request: DeleteRequest) -> TxnOperation {
        TxnOperation { kind: Some(OperationKind::Delete(request)) }
    }
}

impl Compare {
    /// The create revision of one key, or of each key up to `range_end`, is equal to, greater or less than this.
    pub fn created(key: Vec<u8>, range_end: Vec<u8>, result: i32, revision: i64) -> Compare {
        let with = Some(CompareWith::CreateRevision(revision));
        Compare { result, target: CREATE_REVISION, key, with, range_end }
    }

    /// The key has this lease.
    pub fn leased(key: Vec<u8>, lease: i64) -> Compare {
        let with = Some(CompareWith::Lease(lease));
        Compare { result: EQUAL, target: LEASE, key, with, range_end: Vec::new() }
    }
}

impl TxnResponse {
    /// Of the whole store, when the transaction was carried out.
    pub fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }

    /// The keys in the answers to ranges.
    pub fn into_keys(self) -> impl Iterator<Item = KeyValue> {
        self.answers.into_iter().flat_map(|answer| match answer.kind {
            Some(OperationAnswerKind::Range(range)) => range.kvs,
            None => Vec::new(),
        })
    }
}

impl RangeResponse {
    /// Of the whole store, when the keys were read.
    pub fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }
}

/// Reads an answer to each call.
#[cfg(any(test, fuzzing))]
pub fn read_answer(bytes: &[u8]) -> Vec<KeyValue> {
    let _ = (LeaseKeepAliveResponse::decode(bytes), LeaseTimeToLiveResponse::decode(bytes));
    let _ = (WatchResponse::decode(bytes), AuthenticateResponse::decode(bytes));
    let _ = (StatusResponse::decode(bytes), MemberListResponse::decode(bytes));
    let read = RangeResponse::decode(bytes).map_or(Vec::new(), |range| range.kvs);
    let done = TxnResponse::decode(bytes).into_iter().flat_map(TxnResponse::into_keys);
    read.into_iter().chain(done).collect()
}
