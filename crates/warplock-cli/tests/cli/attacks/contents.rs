//! Attacks on what is in files.

use std::fs::{self, File};

use rustix::fs::{FallocateFlags, fallocate};

use super::Promise::Noticed;
use super::tree::Moment::{Open, Read};
use super::world::{BLOCK, PAGE, START};
use super::{attack, bytes, run};

const NEWEST: &str = "not the newest version of this block";

const PAGES: &str = "what authenticates its blocks from 0 on does not verify";

/// A block of a file with this number, where no page of seals stands before it.
fn block(number: usize) -> std::ops::Range<usize> {
    START + number * BLOCK..START + (number + 1) * BLOCK
}

#[test]
fn on_blocks_and_pages() {
    run(&[
        attack("flip a bit of a block", |a| {
            a.edit("long", |data| data[START + 100] ^= 1);
        })
        .noticed(Read, &["long"], NEWEST),
        attack("flip a bit of the last block", |a| {
            a.edit("short", |data| *data.last_mut().unwrap() ^= 0x80);
        })
        .noticed(Read, &["short"], NEWEST),
        attack("exchange two blocks", |a| {
            a.edit("long", |data| {
                let (one, other) = data.split_at_mut(START + BLOCK);
                one[START..].swap_with_slice(&mut other[..BLOCK]);
            });
        })
        .noticed(Read, &["long"], NEWEST),
        attack("repeat a block", |a| {
            a.edit("short", |data| data.copy_within(block(0), START + BLOCK));
        })
        .noticed(Read, &["short"], NEWEST),
        attack("zero a block", |a| {
            a.edit("short", |data| data[block(1)].fill(0));
        })
        .noticed(Read, &["short"], NEWEST),
        attack("punch a hole into the store", |a| {
            let file = File::options().write(true).open(a.at("long")).unwrap();
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, how, block(2).start as u64, 3 * BLOCK as u64).unwrap();
        })
        .noticed(Read, &["long"], NEWEST),
        attack("a block of another file", |a| {
            let other = fs::read(a.at("long2")).unwrap();
            a.edit("long", |data| {
                data[block(3)].copy_from_slice(&other[block(3)])
            });
        })
        .noticed(Read, &["long"], NEWEST),
        attack("zero the page of seals", |a| {
            a.edit("long", |data| data[PAGE..][..2 * BLOCK].fill(0));
        })
        .noticed(Read, &["long"], PAGES),
        attack("exchange the slots of a page", |a| {
            a.edit("sparse", |data| {
                let (one, other) = data[PAGE..].split_at_mut(BLOCK);
                one.swap_with_slice(&mut other[..BLOCK]);
            });
        })
        .noticed(Read, &["sparse"], PAGES),
        attack("put bytes into a hole", |a| {
            a.edit("sparse", |data| {
                let hole = START + 2 * BLOCK + 10 * BLOCK;
                assert_eq!(data[hole..][..BLOCK], [0; BLOCK]);
                data.copy_within(block(0), hole);
            });
        }),
        attack("zero the block before a hole", |a| {
            a.edit("sparse", |data| data[block(3)][..50].fill(0));
        })
        .noticed(Read, &["sparse"], NEWEST),
    ]);
}

#[test]
fn on_lengths_and_headers() {
    const LENGTH: &str = "bytes in the store instead of";
    const HEADER: usize = 2048;
    run(&[
        attack("cut within a block", |a| {
            a.edit("long", |data| data.truncate(data.len() - 1));
        })
        .noticed(Open, &["long"], LENGTH),
        attack("cut at a block", |a| {
            a.edit("long", |data| data.truncate(START + 3 * BLOCK));
        })
        .noticed(Open, &["long"], LENGTH),
        attack("append", |a| a.edit("short", |data| data.extend([7; 5000]))).noticed(
            Open,
            &["short"],
            LENGTH,
        ),
        attack("empty a file", |a| a.edit("short", Vec::clear)).noticed(
            Open,
            &["short"],
            "no header in it verifies",
        ),
        attack("make a file look new", |a| {
            a.edit("short", |data| {
                data.truncate(START);
                data[HEADER..].fill(0);
            });
        })
        .noticed(Open, &["short"], "headers is damaged"),
        attack("zero both headers", |a| {
            a.edit("long", |data| data[..START].fill(0));
        })
        .noticed(Open, &["long"], "header"),
        attack("zero the second header", |a| {
            a.edit("long", |data| data[HEADER..START].fill(0));
        })
        .noticed(Open, &["long"], "header"),
        attack("the first header twice", |a| {
            a.edit("s2", |data| data.copy_within(..HEADER, HEADER));
        })
        .noticed(Open, &["s2"], "header"),
        attack("flip a bit of a header", |a| {
            a.edit("s2", |data| data[HEADER + 100] ^= 1);
        })
        .noticed(Open, &["s2"], "header"),
        attack("headers of another file", |a| {
            let other = fs::read(a.at("long2")).unwrap();
            a.edit("long", |data| {
                data[..START].copy_from_slice(&other[..START])
            });
        })
        .noticed(Open, &["long"], "never given to it"),
        attack("a header of another file", |a| {
            let other = fs::read(a.at("long2")).unwrap();
            a.edit("long", |data| {
                data[..HEADER].copy_from_slice(&other[..HEADER])
            });
        })
        .noticed(Open, &["long"], "header"),
        attack("old headers of the same length", |a| {
            a.mix("long", |data, old| {
                data[..START].copy_from_slice(&old[..START])
            });
        })
        .second(overwrite)
        .noticed(Open, &["long"], "an old version")
        .but_alone(Noticed {
            moment: Read,
            paths: &["long"],
            says: NEWEST,
        }),
        attack("old headers of another length", |a| {
            a.mix("long", |data, old| {
                data[..START].copy_from_slice(&old[..START])
            });
        })
        .second(|folder| {
            let file = File::options().append(true).open(folder.join("long"));
            std::io::Write::write_all(&mut file.unwrap(), b"more").unwrap();
        })
        .noticed(Open, &["long"], LENGTH),
    ]);
}

/// Blocks 2 to 18 get new content.
fn overwrite(folder: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let file = File::options().write(true).open(folder.join("long"));
    let data = bytes("new", 17 * BLOCK);
    file.unwrap().write_all_at(&data, 2 * BLOCK as u64).unwrap();
}
