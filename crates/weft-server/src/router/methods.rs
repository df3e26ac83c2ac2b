//! The methods of HTTP, short enough for a table of routes.

use crate::openapi::MethodFilter;

pub(super) const GET: MethodFilter = MethodFilter::GET;
pub(super) const POST: MethodFilter = MethodFilter::POST;
pub(super) const PUT: MethodFilter = MethodFilter::PUT;
pub(super) const PATCH: MethodFilter = MethodFilter::PATCH;
pub(super) const DELETE: MethodFilter = MethodFilter::DELETE;
