//! Uses Warplock from a plain debug build, in which threads have the standard library's 2 MiB of
//! stack.

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::thread;

    use warplock::{
        Algorithm, Batch, Direction, Engine, InstructionSet, Ivs, Key, Keys, Tags, Text,
    };
    use warplock_container::{InputKey, Pipeline, Sink, Source, Suite, open, seal};

    /// Encrypts and decrypts one message with each algorithm.
    fn use_each_algorithm(engine: &Engine) {
        for algorithm in Algorithm::all() {
            let key = Key::generate(algorithm).unwrap();
            let iv = vec![3; algorithm.info().iv_len()];
            let text: Vec<u8> = (0..256 << 10).map(|place| (place % 251) as u8).collect();
            let mut data = text.clone();
            let mut tag = vec![0; if algorithm.is_aead() { 16 } else { 0 }];
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let mut batch = Batch::new(direction, Keys::One(&key), Text::in_place(&mut data));
                if !iv.is_empty() {
                    batch = batch.ivs(Ivs::Each(&iv));
                }
                if algorithm.is_aead() {
                    batch = batch.tags(Tags::Apart(&mut tag));
                }
                engine.run(batch).unwrap();
                assert_eq!(data == text, direction == Direction::Decrypt, "{algorithm}");
            }
        }
    }

    #[test]
    fn messages_are_sealed_in_a_test() {
        use_each_algorithm(&Engine::new().unwrap());
    }

    #[test]
    fn messages_are_sealed_on_a_thread_by_every_instruction_set() {
        for set in InstructionSet::all().filter(|set| set.is_available()) {
            let backend = format!("cpu:{}", set.name()).parse().unwrap();
            let engine = Engine::builder().backend(backend).build().unwrap();
            thread::spawn(move || use_each_algorithm(&engine))
                .join()
                .unwrap();
        }
    }

    #[test]
    fn a_file_is_sealed_and_opened() {
        let folder = std::env::temp_dir();
        let name = |end| folder.join(format!("warplock-downstream-{}.{end}", std::process::id()));
        let (sealed, opened) = (name("sealed"), name("opened"));
        let text: Vec<u8> = (0..3 << 20).map(|place| (place % 251) as u8).collect();
        let key = InputKey::new(Suite::Cobblestone256, &[7; 32]).unwrap();
        let pipeline = Pipeline::new().unwrap();
        let to = Sink::sequential(File::create(&sealed).unwrap());
        seal(Source::bytes(&text), to, &key, &pipeline).unwrap();
        let file = File::open(&sealed).unwrap();
        let from = Source::file(&file).unwrap();
        let to = Sink::sequential(File::create(&opened).unwrap());
        open(from, to, &key, &pipeline).unwrap();
        assert!(fs::read(&opened).unwrap() == text);
        fs::remove_file(sealed).unwrap();
        fs::remove_file(opened).unwrap();
    }
}
