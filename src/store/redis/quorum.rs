//! The Redlock algorithm: several independent servers, of which a majority decides.

use std::time::Duration;

use super::Address;
use crate::lock::{
    Broken, FencingToken, Key, LockStatus, OwnerToken, Patience, Renewal, Request, Store, StoreError, Take,
};

pub struct Quorum {
    members: Vec<Address>,
}

impl Quorum {
    pub fn new(members: Vec<Address>) -> Quorum {
        Quorum { members }
    }

    fn unsupported<T>(&self) -> Result<T, StoreError> {
        let store = format!("a quorum of {}", self.members.len());
        Err(StoreError::Unusable { store, why: "it is not supported yet".to_owned() })
    }
}

impl Store for Quorum {
    fn take(&mut self, _requests: &[Request], _patience: &Patience) -> Result<Take, StoreError> {
        self.unsupported()
    }

    fn line_up(&mut self, _request: &Request, _patience: &Patience) -> Result<Take, StoreError> {
        self.unsupported()
    }

    fn wait(&mut self, _patience: &Patience) -> Result<bool, StoreError> {
        self.unsupported()
    }

    fn renew(
        &mut self,
        _request: &Request,
        _fence: Option<FencingToken>,
        _patience: &Patience,
    ) -> Result<Renewal, StoreError> {
        self.unsupported()
    }

    fn release(
        &mut self,
        _keys: &[Key],
        _token: &OwnerToken,
        _patience: &Patience,
    ) -> Result<Vec<bool>, StoreError> {
        self.unsupported()
    }

    fn withdraw(&mut self, _requests: &[Request], _patience: &Patience) -> Result<(), StoreError> {
        Ok(())
    }

    fn check(
        &mut self,
        _key: &Key,
        _token: &OwnerToken,
        _patience: &Patience,
    ) -> Result<Option<Duration>, StoreError> {
        self.unsupported()
    }

    fn status(&mut self, _keys: &[Key], _patience: &Patience) -> Result<Vec<LockStatus>, StoreError> {
        self.unsupported()
    }

    fn break_lock(
        &mut self,
        _key: &Key,
        _token: Option<&OwnerToken>,
        _patience: &Patience,
    ) -> Result<Broken, StoreError> {
        self.unsupported()
    }
}
