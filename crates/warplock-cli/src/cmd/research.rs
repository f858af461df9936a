//! `warplock research`: a cipher that is not secure, for study.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::available_parallelism;

use serde_json::json;
use warplock::fill_random;
use warplock_analyze::pictures::Picture;
use warplock_analyze::research::{
    Evolved, Generator, GpuResearch, KEY_LEN, decrypt, encrypt, evolve, recover_key,
};
use warplock_analyze::trials::Trials;
use warplock_analyze::{Data, Options, Random, Shape, analyze, compare};
use zeroize::Zeroizing;

use super::inputs::stdin_once;
use crate::args::{Attack, Common, Demo, Evolve, PadDirection, PadOptions, Research};
use crate::console::{print, say};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::output::{Output, distinct};

/// Keys for which the demonstration measures.
const TRIALS: usize = 200;

/// Runs the subcommand, after the warning.
pub(super) fn run(command: Research, common: &Common) -> Result<Exit> {
    // Even with --quiet.
    say("warplock: warning: not secure: for study");
    match command {
        Research::Evolve(options) => evolution(&options, common),
        Research::Pad(PadDirection::Encrypt(options)) => pad(&options, common, true),
        Research::Pad(PadDirection::Decrypt(options)) => pad(&options, common, false),
        Research::Attack(options) => attack(&options, common),
        Research::Demo(options) => demo(&options, common),
    }
}

fn threads(common: &Common) -> NonZeroUsize {
    let cores = || available_parallelism().unwrap_or(NonZeroUsize::MIN);
    common.threads.unwrap_or_else(cores)
}

fn evolution(options: &Evolve, common: &Common) -> Result<Exit> {
    let output = Output::create(
        options.output.as_deref().unwrap_or(Path::new("-")),
        options.force,
        None,
    )?;
    let (seed, generations) = (options.seed, options.generations);
    let evolved = match gpu(common)? {
        Some(gpu) => gpu.evolve(seed, generations).map_err(Failure::error)?,
        None => evolve(seed, generations, threads(common)),
    };
    let mut text = serde_json::to_string_pretty(&evolved).expect("numbers and texts are JSON");
    text.push('\n');
    write(output, text.as_bytes())?;
    Ok(Exit::Done)
}

/// The GPU that the options name, if they name one.
fn gpu(common: &Common) -> Result<Option<GpuResearch>> {
    let device = common.gpu()?;
    let gpu = device.as_ref().map(GpuResearch::new);
    gpu.transpose().map_err(Failure::error)
}

fn write(output: Output, bytes: &[u8]) -> Result<()> {
    let written = output.file().write_all(bytes);
    written.map_err(|error| Failure::writing(&error).about(&output.name))?;
    output.publish()
}

fn read(path: &Path) -> Result<(Vec<u8>, Input)> {
    let mut input = Input::open(path)?;
    let mut bytes = Vec::new();
    let read = input.file.read_to_end(&mut bytes);
    read.map_err(|error| Failure::io("cannot read", &error).about(&input.name))?;
    Ok((bytes, input))
}

fn generator(path: &Path) -> Result<Generator> {
    let (bytes, input) = read(path)?;
    let evolved: Evolved = serde_json::from_slice(&bytes).map_err(|error| {
        let what = format_args!("no generator of `warplock research evolve`: {error}");
        Failure::error(what).about(&input.name)
    })?;
    Ok(evolved.generator)
}

fn pad(options: &PadOptions, common: &Common, encrypting: bool) -> Result<Exit> {
    let dash = Path::new("-");
    let input = options.input.as_deref().unwrap_or(dash);
    stdin_once(&[
        ("--generator", is_dash(&options.generator)),
        ("--key", options.key.is_stdin()),
        ("the input", is_dash(input)),
    ])?;
    let read_too = [Some(&*options.generator), options.key.file()];
    distinct(options.output.as_deref(), read_too.into_iter().flatten())?;
    let generator = generator(&options.generator)?;
    let key = options.key.read("--key")?;
    let key: Zeroizing<[u8; KEY_LEN]> = match key.bytes.as_slice().try_into() {
        Ok(key) => Zeroizing::new(key),
        Err(_) => {
            return Err(Failure::usage(format_args!(
                "--key: a key has {KEY_LEN} bytes, not {}{}",
                key.bytes.len(),
                key.hint()
            )));
        }
    };
    let (text, input) = read(input)?;
    let output = options.output.as_deref().unwrap_or(dash);
    let output = Output::create(output, options.force, Some(&input))?;
    let gpu = gpu(common)?;
    let result = match encrypting {
        true => {
            let mut iv = [0; 16];
            fill_random(&mut iv)?;
            Some(match &gpu {
                Some(gpu) => gpu
                    .encrypt(&generator, &key, &iv, &text)
                    .map_err(Failure::error)?,
                None => encrypt(&generator, &key, &iv, &text),
            })
        }
        false => match &gpu {
            Some(gpu) => gpu
                .decrypt(&generator, &key, &text)
                .map_err(Failure::error)?,
            None => decrypt(&generator, &key, &text),
        },
    };
    let result = result
        .ok_or_else(|| Failure::error("shorter than an IV of 16 bytes").about(&input.name))?;
    write(output, &result)?;
    Ok(Exit::Done)
}

fn attack(options: &Attack, common: &Common) -> Result<Exit> {
    stdin_once(&[
        ("--generator", is_dash(&options.generator)),
        ("--known", is_dash(&options.known)),
        ("the ciphertext", is_dash(&options.cipher)),
    ])?;
    distinct(
        options.output.as_deref(),
        [&*options.generator, &*options.known],
    )?;
    let generator = generator(&options.generator)?;
    let (known, _) = read(&options.known)?;
    let (cipher, input) = read(&options.cipher)?;
    let output = match &options.output {
        Some(path) => Some(Output::create(path, options.force, Some(&input))?),
        None => None,
    };
    let key = recover_key(&generator, &cipher, &known, options.offset).ok_or_else(|| {
        Failure::error(
            "no key fits: the attack needs a whole block of 16 known bytes at a multiple of 16, and \
             all known bytes right",
        )
        .about(&input.name)
    })?;
    if let Some(output) = output {
        let plain = decrypt(&generator, &key, &cipher).expect("the attack read an IV");
        write(output, &plain)?;
    }
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    if common.json {
        common.emit(&json!({ "file": input.name, "key": key }))?;
    } else {
        print(&format!("the key is {key}\n"))?;
    }
    Ok(Exit::Done)
}

fn demo(options: &Demo, common: &Common) -> Result<Exit> {
    let generator = match &options.generator {
        Some(path) => generator(path)?,
        None => evolve(1, 20, threads(common)).generator,
    };
    let shape = Shape {
        width: 256,
        height: 256,
        channels: 1,
    };
    let plain = Picture::Photograph.draw(shape, 1);
    let plain = plain.as_bytes();
    let mut random = Random::new(options.seed);
    let mut fresh = || {
        let mut block = [0; 16];
        random.fill(&mut block);
        block
    };
    let mut trials = Trials::default();
    for _ in 0..TRIALS {
        let (mut key, iv) = (fresh(), fresh());
        let one = encrypt(&generator, &key, &iv, plain);
        key[0] ^= 1;
        let other = encrypt(&generator, &key, &iv, plain);
        let picture = |cipher| Data::image(cipher, shape).map_err(Failure::error);
        let (one, other) = (picture(&one[16..])?, picture(&other[16..])?);
        let report = analyze(&one, &Options::default());
        report.tests().for_each(|test| trials.add("", test));
        let comparison = compare(&one, &other).map_err(Failure::error)?;
        comparison.tests().for_each(|test| trials.add("", test));
    }
    let mut text = format!(
        "A synthetic photograph of 256 by 256 pixels under {TRIALS} keys; NPCR, UACI and changed \
         bits after one bit of the key was changed:\n"
    );
    for summary in trials.summaries() {
        text += &format!("  {}\n", summary.sentence());
    }
    let (key, iv) = (fresh(), fresh());
    let cipher = encrypt(&generator, &key, &iv, plain);
    let found = recover_key(&generator, &cipher, &plain[..16], 0);
    let opened = found.and_then(|found| decrypt(&generator, &found, &cipher));
    text += match opened.as_deref() == Some(plain) && found == Some(key) {
        true => {
            "And from one ciphertext and the first 16 bytes of its plaintext, the attack found the \
             key and the whole picture: passing these statistics shows no security.\n"
        }
        false => "The attack failed.\n",
    };
    print(&text)?;
    Ok(Exit::Done)
}
