// Warplock from Go through its C header: seals a thousand records in one call and opens them.
// Build: PKG_CONFIG_PATH=PREFIX/lib/pkgconfig go run .
package main

// #cgo pkg-config: warplock
// #include <stdlib.h>
// #include <warplock.h>
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"
)

func check(status C.wl_status) {
	if status != C.WL_OK {
		var sentence [512]C.char
		C.wl_last_error(&sentence[0], C.size_t(len(sentence)))
		fmt.Fprintln(os.Stderr, C.GoString(&sentence[0]))
		os.Exit(1)
	}
}

func main() {
	var engine *C.wl_engine
	check(C.wl_engine_new(nil, 0, &engine))
	defer C.wl_engine_free(engine)
	var key *C.wl_key
	check(C.wl_key_generate(C.WL_AES_256_GCM, &key))
	defer C.wl_key_free(key)

	// Memory of C: a batch holds pointers, and Go's must not be kept in C's structures.
	const count, size = 1000, 100
	data := C.calloc(count, size+16)
	nonces := C.malloc(count * 12)
	defer C.free(data)
	defer C.free(nonces)
	records := unsafe.Slice((*byte)(data), count*(size+16))
	copy(records, "a record")

	batch := C.wl_batch{operation: C.WL_SEAL, count: count, key: key, text_len: size}
	batch.size = C.uint32_t(unsafe.Sizeof(batch))
	batch.input, batch.input_size = data, count*(size+16)
	batch.nonces = nonces
	check(C.wl_run(engine, &batch, nil))
	sealed := !bytes.HasPrefix(records, []byte("a record"))

	batch.operation = C.WL_OPEN
	check(C.wl_run(engine, &batch, nil))
	opened := bytes.HasPrefix(records, []byte("a record"))

	records[0] ^= 1
	refused := C.wl_run(engine, &batch, nil) == C.WL_ERR_AUTHENTICATION
	fmt.Println("sealed:", sealed, "opened:", opened, "forgery refused:", refused)
	if !sealed || !opened || !refused {
		os.Exit(1)
	}
}
