//! Thrift's compact protocol, as far as Parquet's metadata needs it.
//!
//! A [`Struct`] knows the ids and types of its fields; their values stay raw bytes until they are
//! asked for. So fields of later versions of the format are copied as they are, and hostile input
//! cannot make the reader allocate much more than its own length.

use std::borrow::Cow;

/// What is wrong with the bytes of a structure.
pub(crate) type Problem = &'static str;

const CUT: Problem = "it ends too early";
const NUMBER: Problem = "a number is too long";
const KIND: Problem = "a field has another type than the format says";

/// Parquet's own structures nest eight deep.
const DEPTH: usize = 24;
/// Parquet's largest structure has 17 fields.
const FIELDS: usize = 256;

pub(crate) const I16: u8 = 4;
pub(crate) const I32: u8 = 5;
pub(crate) const I64: u8 = 6;
pub(crate) const BINARY: u8 = 8;
pub(crate) const LIST: u8 = 9;
pub(crate) const STRUCT: u8 = 12;
const TRUE: u8 = 1;
const FALSE: u8 = 2;

/// Reads values from the front of a slice.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Problem> {
        let byte = *self.bytes.get(self.at).ok_or(CUT)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Problem> {
        let end = self.at.checked_add(len).ok_or(CUT)?;
        let taken = self.bytes.get(self.at..end).ok_or(CUT)?;
        self.at = end;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(NUMBER);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(NUMBER)
    }

    fn zigzag(&mut self) -> Result<i64, Problem> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn len(&mut self) -> Result<usize, Problem> {
        usize::try_from(self.varint()?).map_err(|_| CUT)
    }

    /// A list's or set's element type and length.
    fn list(&mut self) -> Result<(u8, usize), Problem> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.len()?,
            short => usize::from(short),
        };
        // Every element has at least a byte.
        match count <= self.bytes.len() - self.at {
            true => Ok((head & 15, count)),
            false => Err(CUT),
        }
    }

    /// Skips the value of a field, or with `element` that of a list's element.
    fn skip(&mut self, kind: u8, element: bool, depth: usize) -> Result<(), Problem> {
        if depth > DEPTH {
            return Err("it nests too deeply");
        }
        match kind {
            TRUE | FALSE => self.take(usize::from(element)).map(drop),
            3 => self.take(1).map(drop),
            I16..=I64 => self.varint().map(drop),
            7 => self.take(8).map(drop),
            BINARY => {
                let len = self.len()?;
                self.take(len).map(drop)
            }
            LIST | 10 => {
                let (kind, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip(kind, true, depth + 1))
            }
            11 => {
                let count = self.len()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                for _ in 0..count {
                    self.skip(kinds >> 4, true, depth + 1)?;
                    self.skip(kinds & 15, true, depth + 1)?;
                }
                Ok(())
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.head(&mut last)? {
                    self.skip(kind, false, depth + 1)?;
                }
                Ok(())
            }
            13 => self.take(16).map(drop),
            _ => Err("a field has an unknown type"),
        }
    }

    /// The id and type of a struct's next field; `None` at its end.
    fn head(&mut self, last: &mut i16) -> Result<Option<(i16, u8)>, Problem> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let id = match head >> 4 {
            0 => i16::try_from(self.zigzag()?).map_err(|_| NUMBER)?,
            delta => last.checked_add(i16::from(delta)).ok_or(NUMBER)?,
        };
        *last = id;
        Ok(Some((id, head & 15)))
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ value >> 63) as u64);
}

/// A structure's fields, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Struct<'a> {
    fields: Vec<Field<'a>>,
}

#[derive(Debug)]
struct Field<'a> {
    id: i16,
    kind: u8,
    value: Cow<'a, [u8]>,
}

impl<'a> Struct<'a> {
    /// One without fields.
    pub(crate) fn new() -> Self {
        Struct { fields: Vec::new() }
    }

    /// The structure at the start of `bytes`, and its length.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<(Self, usize), Problem> {
        let mut reader = Reader { bytes, at: 0 };
        let mut fields: Vec<Field<'_>> = Vec::new();
        let mut last = 0;
        while let Some((id, kind)) = reader.head(&mut last)? {
            if fields.len() == FIELDS {
                return Err("it has too many fields");
            }
            if fields.iter().any(|field| field.id == id) {
                return Err("it has a field twice");
            }
            let start = reader.at;
            reader.skip(kind, false, 0)?;
            let value = Cow::Borrowed(&bytes[start..reader.at]);
            fields.push(Field { id, kind, value });
        }
        Ok((Struct { fields }, reader.at))
    }

    /// The structure of a decrypted module. What follows it is ignored: parquet-java encrypts its
    /// whole buffer, of which the structure is the start.
    pub(crate) fn first(bytes: &'a [u8]) -> Result<Self, Problem> {
        Struct::read(bytes).map(|(found, _)| found)
    }

    /// The structure that `bytes` are.
    pub(crate) fn all(bytes: &'a [u8]) -> Result<Self, Problem> {
        match Struct::read(bytes)? {
            (found, len) if len == bytes.len() => Ok(found),
            _ => Err("other bytes follow it"),
        }
    }

    pub(crate) fn has(&self, id: i16) -> bool {
        self.fields.iter().any(|field| field.id == id)
    }

    /// The value of a field, which has one of these types if it is there.
    fn get(&self, id: i16, kinds: &[u8]) -> Result<Option<&[u8]>, Problem> {
        match self.fields.iter().find(|field| field.id == id) {
            Some(field) if kinds.contains(&field.kind) => Ok(Some(&field.value)),
            Some(_) => Err(KIND),
            None => Ok(None),
        }
    }

    /// A field that is an integer of this type.
    pub(crate) fn integer(&self, id: i16, kind: u8) -> Result<Option<i64>, Problem> {
        let Some(bytes) = self.get(id, &[kind])? else {
            return Ok(None);
        };
        let value = Reader { bytes, at: 0 }.zigzag()?;
        let fits = match kind {
            I16 => i16::try_from(value).is_ok(),
            I32 => i32::try_from(value).is_ok(),
            _ => true,
        };
        if fits { Ok(Some(value)) } else { Err(NUMBER) }
    }

    /// A field that is a length, a place or a number of things.
    pub(crate) fn size(&self, id: i16, kind: u8) -> Result<Option<u64>, Problem> {
        let value = self.integer(id, kind)?;
        let value = value.map(|value| u64::try_from(value).map_err(|_| "a size is negative"));
        value.transpose()
    }

    pub(crate) fn bool(&self, id: i16) -> Result<bool, Problem> {
        match self.fields.iter().find(|field| field.id == id) {
            Some(field) if field.kind == TRUE => Ok(true),
            Some(field) if field.kind != FALSE => Err(KIND),
            _ => Ok(false),
        }
    }

    pub(crate) fn binary(&self, id: i16) -> Result<Option<&[u8]>, Problem> {
        let value = self.get(id, &[BINARY])?;
        value.map(content).transpose()
    }

    /// A field that is a structure.
    pub(crate) fn inner(&self, id: i16) -> Result<Option<Struct<'_>>, Problem> {
        let value = self.get(id, &[STRUCT])?;
        value.map(Struct::all).transpose()
    }

    /// A field that is a list of elements of this type; none if it is missing.
    pub(crate) fn list(&self, id: i16, element: u8) -> Result<Vec<&[u8]>, Problem> {
        let Some(bytes) = self.get(id, &[LIST])? else {
            return Ok(Vec::new());
        };
        let mut reader = Reader { bytes, at: 0 };
        let (kind, count) = reader.list()?;
        if kind != element && count > 0 {
            return Err(KIND);
        }
        let mut elements = Vec::new();
        for _ in 0..count {
            let start = reader.at;
            reader.skip(kind, true, 0)?;
            elements.push(&bytes[start..reader.at]);
        }
        Ok(elements)
    }

    /// Sets a field, in the place of the old one if there is one, otherwise before those with
    /// higher ids.
    fn set(&mut self, id: i16, kind: u8, value: Vec<u8>) {
        let value = Cow::Owned(value);
        match self.fields.iter().position(|field| field.id >= id) {
            Some(place) if self.fields[place].id == id => {
                self.fields[place] = Field { id, kind, value };
            }
            place => {
                let place = place.unwrap_or(self.fields.len());
                self.fields.insert(place, Field { id, kind, value });
            }
        }
    }

    pub(crate) fn set_integer(&mut self, id: i16, kind: u8, value: i64) {
        let mut bytes = Vec::new();
        put_zigzag(&mut bytes, value);
        self.set(id, kind, bytes);
    }

    pub(crate) fn set_binary(&mut self, id: i16, value: &[u8]) {
        let mut bytes = Vec::with_capacity(value.len() + 5);
        put_varint(&mut bytes, value.len() as u64);
        bytes.extend_from_slice(value);
        self.set(id, BINARY, bytes);
    }

    pub(crate) fn set_true(&mut self, id: i16) {
        self.set(id, TRUE, Vec::new());
    }

    /// Sets a field to the list that another structure has.
    pub(crate) fn copy_list(
        &mut self,
        id: i16,
        from: &Struct<'_>,
        other: i16,
    ) -> Result<(), Problem> {
        if let Some(value) = from.get(other, &[LIST])? {
            self.set(id, LIST, value.to_vec());
        }
        Ok(())
    }

    pub(crate) fn set_struct(&mut self, id: i16, value: &Struct<'_>) {
        self.set(id, STRUCT, value.write());
    }

    /// Sets a field to a list of structures.
    pub(crate) fn set_list(&mut self, id: i16, count: usize, elements: &[u8]) {
        let mut bytes = Vec::with_capacity(elements.len() + 6);
        match u8::try_from(count) {
            Ok(count) if count < 15 => bytes.push(count << 4 | STRUCT),
            _ => {
                bytes.push(15 << 4 | STRUCT);
                put_varint(&mut bytes, count as u64);
            }
        }
        bytes.extend_from_slice(elements);
        self.set(id, LIST, bytes);
    }

    pub(crate) fn remove(&mut self, id: i16) {
        self.fields.retain(|field| field.id != id);
    }

    /// Appends the structure.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let mut last = 0i16;
        for field in &self.fields {
            match field.id.checked_sub(last) {
                Some(delta @ 1..=15) => out.push((delta as u8) << 4 | field.kind),
                _ => {
                    out.push(field.kind);
                    put_zigzag(out, i64::from(field.id));
                }
            }
            last = field.id;
            out.extend_from_slice(&field.value);
        }
        out.push(0);
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }
}

/// The bytes of a binary value.
pub(crate) fn content(value: &[u8]) -> Result<&[u8], Problem> {
    let mut reader = Reader {
        bytes: value,
        at: 0,
    };
    let len = reader.len()?;
    reader.take(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field 1: i32 -3; 2: true; 20: binary "ab"; 21: list of two structs; 22: map; 23: double.
    fn sample() -> Vec<u8> {
        let mut bytes = vec![0x15, 5, 0x11];
        bytes.extend([BINARY, 40, 2, b'a', b'b']);
        bytes.extend([0x19, 0x2c, 0x15, 2, 0, 0x15, 4, 0]);
        bytes.extend([0x1b, 1, 0x85, 1, b'k', 6]);
        bytes.push(0x17);
        bytes.extend(1.5f64.to_le_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_structure_is_written_as_it_was_read() {
        let bytes = sample();
        let found = Struct::all(&bytes).unwrap();
        assert_eq!(found.integer(1, I32).unwrap(), Some(-3));
        assert!(found.bool(2).unwrap());
        assert_eq!(found.binary(20).unwrap(), Some(&b"ab"[..]));
        assert_eq!(found.list(21, STRUCT).unwrap().len(), 2);
        assert_eq!(found.write(), bytes);
    }

    #[test]
    fn fields_are_set_in_the_order_of_their_ids() {
        let bytes = sample();
        let mut found = Struct::all(&bytes).unwrap();
        found.set_integer(20, I64, i64::MIN);
        found.set_integer(7, I32, 8);
        found.remove(22);
        found.set_list(30, 20, &[0; 20]);
        let bytes = found.write();
        let found = Struct::all(&bytes).unwrap();
        assert_eq!(found.integer(20, I64).unwrap(), Some(i64::MIN));
        assert_eq!(found.integer(7, I32).unwrap(), Some(8));
        assert!(!found.has(22) && found.has(23));
        assert_eq!(found.list(30, STRUCT).unwrap().len(), 20);
        let ids: Vec<_> = found.fields.iter().map(|field| field.id).collect();
        assert_eq!(ids, [1, 2, 7, 20, 21, 23, 30]);
    }

    #[test]
    fn hostile_structures_are_refused() {
        for len in 0..sample().len() {
            assert_eq!(Struct::all(&sample()[..len]).unwrap_err(), CUT, "{len}");
        }
        let deep = [0x1c; 1000];
        assert_eq!(Struct::all(&deep).unwrap_err(), "it nests too deeply");
        let lists = [&[0x19][..], &[0x19; 1000]].concat();
        assert_eq!(Struct::all(&lists).unwrap_err(), "it nests too deeply");
        // A list of 2^60 elements, and a binary of 2^60 bytes.
        for start in [&[0x19, 0xf5][..], &[0x18]] {
            let huge = [start, &[0x80; 8], &[0x10, 0, 0, 0]].concat();
            assert_eq!(Struct::all(&huge).unwrap_err(), CUT);
        }
        assert_eq!(Struct::all(&[0x16, 0xff, 0xff]).unwrap_err(), CUT);
        assert_eq!(
            Struct::all(&[[0x16].as_slice(), &[0xff; 11]].concat()).unwrap_err(),
            NUMBER
        );
        let twice = [0x15, 2, 0x05, 2, 2, 0];
        assert_eq!(Struct::all(&twice).unwrap_err(), "it has a field twice");
        assert_eq!(
            Struct::all(&[0x1e, 0]).unwrap_err(),
            "a field has an unknown type"
        );
        let many = [&[0x11; 300][..], &[0]].concat();
        assert_eq!(Struct::all(&many).unwrap_err(), "it has too many fields");
    }

    /// A map's count is bounded by nothing but the bytes that its elements take.
    #[test]
    fn maps_of_nothing_end() {
        let mut map = vec![0x1b];
        put_varint(&mut map, u64::MAX >> 1);
        map.push(0x11);
        map.extend([1; 100]);
        assert_eq!(Struct::all(&map).unwrap_err(), CUT);
    }
}
