//! How messages become bytes: prost, with small buffers to begin with.
//!
//! tonic reserves 8 KiB each way for every stream. A runner's stream carries a hundred bytes now and then, and a scheduler
//! holds thousands of them; what is larger makes its buffer grow.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{self, BufferSettings};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// The bytes that a stream reserves at first, each way.
const BUFFER_BYTES: usize = 512;

/// The bytes that are gathered at most before they are handed to the connection, as tonic has it.
const YIELD_BYTES: usize = 32 * 1024;

/// The codec of every method of the protocol.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }
}
