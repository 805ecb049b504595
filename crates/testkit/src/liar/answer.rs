//! A liar over HTTP: from a path and a showing to an answer, with what goes wrong in it.

use super::manner::How;
use super::{Liar, Shown};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use merkle::ResourcePath;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// More bytes than any resource of a tiled log has (16 MiB and a little): what [`How::Endless`] sends.
const ENDLESS: usize = 17 << 20;

/// Between the last byte of a broken answer and the end of its connection.
const BEFORE_THE_END: Duration = Duration::from_millis(20);

/// Answers one request. The first segment of the path says who asks; the rest is a path of a tiled log.
pub(super) async fn answer(State(liar): State<Arc<Liar>>, request: Request<Body>) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let Some((asker, rest)) = path.split_once('/') else { return StatusCode::NOT_FOUND.into_response() };
    let Some(resource) = ResourcePath::parse(rest) else { return StatusCode::NOT_FOUND.into_response() };
    let Some(Shown { how, bytes }) = liar.shown(asker, &resource) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Some(how) = how else { return found(bytes) };
    match how {
        How::Withheld => StatusCode::NOT_FOUND.into_response(),
        How::Status(status) => StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT).into_response(),
        How::Stalls => std::future::pending().await,
        How::BreaksOff => bytes.map_or_else(|| found(None), breaks_off),
        How::CutShort => found(bytes.map(|bytes| bytes[..bytes.len() / 2].to_vec())),
        How::Drips(size, pause) => bytes.map_or_else(|| found(None), |bytes| drips(bytes, size, pause)),
        How::Garbage => found(bytes.map(|bytes| liar.garbage(path, bytes.len()))),
        How::OneBit => found(bytes.map(|mut bytes| {
            // In the middle: of a checkpoint that is in its root or signature, of a tile in some hash.
            let middle = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 1;
            }
            bytes
        })),
        How::Endless => vec![b'x'; ENDLESS].into_response(),
        How::Redirects => redirect(&format!("/{}/{rest}", super::STRAIGHT)),
        // The bytes are already the other history's.
        How::OfHistory(_) => found(bytes),
    }
}

fn found(bytes: Option<Vec<u8>>) -> Response {
    bytes.map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
}

fn redirect(location: &str) -> Response {
    let location = HeaderValue::from_str(location).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

/// Half of the bytes under the length of all of them, and then the connection ends.
fn breaks_off(bytes: Vec<u8>) -> Response {
    let length = bytes.len();
    let half = Bytes::from(bytes).slice(..length / 2);
    let end = async {
        // What was written must be on its way first: an error takes with it what still waits to be sent.
        tokio::time::sleep(BEFORE_THE_END).await;
        Err(io::Error::from(io::ErrorKind::ConnectionAborted))
    };
    let parts = stream::once(async { Ok(half) }).chain(stream::once(end));
    let body = Body::from_stream(parts);
    ([(header::CONTENT_LENGTH, HeaderValue::from(length))], body).into_response()
}

fn drips(bytes: Vec<u8>, size: usize, pause: Duration) -> Response {
    let length = bytes.len();
    let parts = stream::unfold(Bytes::from(bytes), move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        tokio::time::sleep(pause).await;
        let part = rest.split_to(size.clamp(1, rest.len()));
        Some((Ok::<_, Infallible>(part), rest))
    });
    ([(header::CONTENT_LENGTH, HeaderValue::from(length))], Body::from_stream(parts)).into_response()
}
