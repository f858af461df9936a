//! A range of an encrypted file on a web server: only the chunks around it are fetched, and each is
//! verified. The server is a thread of this program, as simple as a server can be.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::{fs, thread};

use warplock_container::{Pipeline, Reader, encrypt_file};

/// A file on a web server, read by ranges. A bucket's client takes the place of this.
struct Remote {
    server: SocketAddr,
    len: u64,
    position: u64,
    fetched: u64,
}

impl Read for Remote {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.len.min(self.position + buffer.len() as u64);
        if self.position >= end {
            return Ok(0);
        }
        let mut server = TcpStream::connect(self.server)?;
        let (first, last) = (self.position, end - 1);
        write!(
            server,
            "GET / HTTP/1.1\r\nRange: bytes={first}-{last}\r\n\r\n"
        )?;
        let mut answer = BufReader::new(server);
        let mut line = String::new();
        while answer.read_line(&mut line)? > 2 {
            line.clear();
        }
        let len = (end - self.position) as usize;
        answer.read_exact(&mut buffer[..len])?;
        self.position = end;
        self.fetched += len as u64;
        Ok(len)
    }
}

impl Seek for Remote {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(offset) => self.len.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

fn serve(listener: &TcpListener, file: &[u8]) -> io::Result<()> {
    loop {
        let mut client = BufReader::new(listener.accept()?.0);
        let (mut line, mut range) = (String::new(), 0..0);
        while client.read_line(&mut line)? > 2 {
            if let Some(bytes) = line.strip_prefix("Range: bytes=")
                && let Some((first, last)) = bytes.trim().split_once('-')
                && let (Ok(first), Ok(last)) = (first.parse(), last.parse::<usize>())
            {
                range = first..last + 1;
            }
            line.clear();
        }
        let client = client.get_mut();
        write!(client, "HTTP/1.1 206 Partial Content\r\n\r\n")?;
        client.write_all(&file[range])?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (recipients, identities) = warplock_examples::new_identity()?;
    let folder = tempfile::tempdir()?;
    let (plain, sealed) = (folder.path().join("log"), folder.path().join("log.wl"));
    let text: String = (0..400_000)
        .map(|line| format!("line {line:010}\n"))
        .collect();
    fs::write(&plain, &text)?;
    let pipeline = Pipeline::new()?;
    encrypt_file(&plain, &sealed, &recipients, &pipeline)?;

    let file = fs::read(&sealed)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (server, len) = (listener.local_addr()?, file.len() as u64);
    thread::spawn(move || serve(&listener, &file));

    let remote = Remote {
        server,
        len,
        position: 0,
        fetched: 0,
    };
    let engine = Arc::clone(pipeline.engine());
    let mut reader = Reader::unlock(remote, &identities, engine)?;
    reader.seek(SeekFrom::Start(16 * 123_456))?;
    let mut line = [0; 16];
    reader.read_exact(&mut line)?;
    assert_eq!(&line, b"line 0000123456\n");
    let fetched = reader.into_inner().fetched;
    println!(
        "one line of {} MB: {fetched} bytes fetched",
        len / 1_000_000
    );
    assert!(fetched < 100_000);
    Ok(())
}
