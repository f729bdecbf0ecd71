//! Greeting the screen of a box, as a viewer of it would.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Security type None: whoever reaches a box's screen was let in by the edge, and a password in a box would be
/// no secret.
const NONE: u8 = 1;
/// The screen is shared with whoever else looks.
const SHARED: u8 = 1;

/// Why a screen cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    #[error("the screen's server broke off")]
    Io(#[from] io::Error),
    #[error("it does not speak RFB 3.7 or 3.8")]
    Version,
    #[error("it wants a password")]
    Security,
}

/// Brings a connection to where the box describes its screen, which is left to be read.
pub async fn greet<S: AsyncRead + AsyncWrite + Unpin>(screen: &mut S) -> Result<(), GreetError> {
    let mut version = [0; 12];
    screen.read_exact(&mut version).await?;
    let tells = match &version {
        b"RFB 003.008\n" => true,
        b"RFB 003.007\n" => false,
        _ => return Err(GreetError::Version),
    };
    screen.write_all(&version).await?;
    // At most 255; none where it refuses.
    let count = usize::from(screen.read_u8().await?);
    let mut types = vec![0; count];
    screen.read_exact(&mut types).await?;
    if !types.contains(&NONE) {
        return Err(GreetError::Security);
    }
    screen.write_all(&[NONE]).await?;
    if tells && screen.read_u32().await? != 0 {
        return Err(GreetError::Security);
    }
    screen.write_all(&[SHARED]).await?;
    Ok(())
}
