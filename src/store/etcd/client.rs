//! The calls of etcd's v3 API over one connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::http::Uri;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response};
use prost::Message;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::message::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveResponse,
    LeaseRequest, LeaseRevokeResponse, LeaseTimeToLiveResponse, MemberListRequest, MemberListResponse,
    RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchRequest, WatchResponse,
};

/// An answer of more bytes than this is an error: no server fills the memory.
const LONGEST_ANSWER: usize = 1 << 20;
/// For an answer with the metadata of all waiters of a lock.
const LONGEST_LIST: usize = 16 << 20;

/// One connection, as many calls at a time as one likes. Clones share it.
#[derive(Clone)]
pub struct EtcdClient {
    connection: Http2,
    origin: Uri,
    /// The token of the login.
    token: Option<MetadataValue<Ascii>>,
}

impl EtcdClient {
    pub fn new(connection: SendRequest<Body>, origin: Uri) -> EtcdClient {
        EtcdClient { connection: Http2(connection), origin, token: None }
    }

    /// With the token that [`EtcdClient::authenticate`] returned.
    pub fn logged_in(&self, token: Option<MetadataValue<Ascii>>) -> EtcdClient {
        EtcdClient { token, ..self.clone() }
    }

    /// The server has ended the connection.
    pub fn is_closed(&self) -> bool {
        self.connection.0.is_closed()
    }

    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.unary("/etcdserverpb.KV/Range", request, LONGEST_LIST).await
    }

    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.unary("/etcdserverpb.KV/Txn", request, LONGEST_ANSWER).await
    }

    /// `false` when there is a lease with this id already.
    pub async fn grant(&self, id: i64, seconds: i64) -> Result<bool, Status> {
        let request = LeaseGrantRequest { ttl: seconds, id };
        let granted: Result<LeaseGrantResponse, Status> =
            self.unary("/etcdserverpb.Lease/LeaseGrant", request, LONGEST_ANSWER).await;
        match granted {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::FailedPrecondition => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Ends a lease and deletes its keys. `false` when there is none with this id.
    pub async fn revoke(&self, id: i64) -> Result<bool, Status> {
        let revoked: Result<LeaseRevokeResponse, Status> =
            self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id }, LONGEST_ANSWER).await;
        match revoked {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// Extends a lease. Returns its TTL in seconds, 0 or less without such a lease.
    pub async fn keep_alive(&self, id: i64) -> Result<i64, Status> {
        let requests = tokio_stream::once(LeaseRequest { id });
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let mut answers: Streaming<LeaseKeepAliveResponse> = self.streaming(path, requests).await?;
        let answer = answers.message().await?;
        Ok(answer.ok_or_else(|| Status::unavailable("no answer to a renewal"))?.ttl)
    }

    /// Extends each lease whose id is sent to it, until either end is dropped.
    pub fn keep_alive_stream(&self) -> (UnboundedSender<i64>, UnboundedReceiver<LeaseKeepAliveResponse>) {
        let (sender, ids) = unbounded_channel();
        let requests = UnboundedReceiverStream::new(ids).map(|id| LeaseRequest { id });
        (sender, self.in_background("/etcdserverpb.Lease/LeaseKeepAlive", requests))
    }

    /// The rest of a lease in seconds, less than 0 without one.
    pub async fn time_to_live(&self, id: i64) -> Result<i64, Status> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        let left: LeaseTimeToLiveResponse = self.unary(path, LeaseRequest { id }, LONGEST_ANSWER).await?;
        Ok(left.ttl)
    }

    /// Watches keys until the receiver is dropped.
    pub fn watch(&self, request: WatchCreateRequest) -> UnboundedReceiver<WatchResponse> {
        // The end of our side would end the watch.
        let requests =
            tokio_stream::once(WatchRequest { create: Some(request) }).chain(tokio_stream::pending());
        self.in_background("/etcdserverpb.Watch/Watch", requests)
    }

    /// The token of a login.
    pub async fn authenticate(&self, name: &str, password: &str) -> Result<String, Status> {
        let request = AuthenticateRequest { name: name.to_owned(), password: password.to_owned() };
        let path = "/etcdserverpb.Auth/Authenticate";
        let login: AuthenticateResponse = self.unary(path, request, LONGEST_ANSWER).await?;
        Ok(login.token)
    }

    pub async fn status(&self) -> Result<StatusResponse, Status> {
        self.unary("/etcdserverpb.Maintenance/Status", StatusRequest {}, LONGEST_ANSWER).await
    }

    pub async fn members(&self) -> Result<usize, Status> {
        let path = "/etcdserverpb.Cluster/MemberList";
        let list: MemberListResponse = self.unary(path, MemberListRequest {}, LONGEST_ANSWER).await?;
        Ok(list.members.len())
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q, longest: usize) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc(longest);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(self.request(request), path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    async fn streaming<Q, A>(
        &self,
        path: &'static str,
        requests: impl tokio_stream::Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc(LONGEST_ANSWER);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(path);
        Ok(grpc.streaming(self.request(requests), path, ProstCodec::default()).await?.into_inner())
    }

    /// Opens a stream and receives its answers while the runtime runs. The receiver ends with the stream.
    fn in_background<Q, A>(
        &self,
        path: &'static str,
        requests: impl tokio_stream::Stream<Item = Q> + Send + 'static,
    ) -> UnboundedReceiver<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (answers, receiver) = unbounded_channel();
        let client = self.clone();
        drop(tokio::spawn(async move {
            let Ok(mut stream) = client.streaming(path, requests).await else { return };
            loop {
                let answer = tokio::select! {
                    answer = stream.message() => answer,
                    () = answers.closed() => return,
                };
                let Ok(Some(answer)) = answer else { return };
                if answers.send(answer).is_err() {
                    return;
                }
            }
        }));
        receiver
    }

    fn grpc(&self, longest: usize) -> Grpc<Http2> {
        Grpc::with_origin(self.connection.clone(), self.origin.clone()).max_decoding_message_size(longest)
    }

    fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let metadata: &mut MetadataMap = request.metadata_mut();
        // A member without a leader says so at once, instead of waiting for one for seconds.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }
}

/// HTTP/2, as tonic wants it.
#[derive(Clone)]
struct Http2(SendRequest<Body>);

impl Service<Request<Body>> for Http2 {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
