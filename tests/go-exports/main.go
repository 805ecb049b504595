// Exports reads what `counterfoil-verify export` writes, with nothing of the program that wrote it: COSE is that of
// github.com/veraison/go-cose, the tree that of github.com/transparency-dev/merkle, the envelope that of
// github.com/secure-systems-lab/go-securesystemslib, the statement that of github.com/in-toto/attestation.
//
//	exports cose      <file> <entry> <public key, base64url> <signer's name> <origin>
//	exports dsse      <file> <entry> <public key, base64url>
//	exports statement <file> <entry>
//
// Each prints what it read as one JSON object. Before, bits of the file and of the entry are turned over, one at a time: all of
// them, or in an envelope, which is long, one in each byte. What is signed must be refused each time, or say the same as before.
// Whatever is not as specified ends it with status 1.
package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
)

// What a file says, once it was believed.
type found map[string]any

func main() {
	read, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "exports:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(read); err != nil {
		fmt.Fprintln(os.Stderr, "exports:", err)
		os.Exit(1)
	}
}

func run(arguments []string) (found, error) {
	if len(arguments) < 3 {
		return nil, fmt.Errorf("usage: exports cose|dsse|statement <file> <entry> ...")
	}
	file, err := os.ReadFile(arguments[1])
	if err != nil {
		return nil, err
	}
	entry, err := os.ReadFile(arguments[2])
	if err != nil {
		return nil, err
	}
	var key ed25519.PublicKey
	if len(arguments) > 3 {
		if key, err = base64.RawURLEncoding.DecodeString(arguments[3]); err != nil {
			return nil, err
		}
		if len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("the key has %d bytes", len(key))
		}
	}
	switch kind := arguments[0]; {
	case kind == "cose" && len(arguments) == 6:
		name, origin := arguments[4], arguments[5]
		return tried(file, entry, 8, func(file, entry []byte) (found, error) {
			return readReceipt(file, entry, key, name, origin)
		})
	case kind == "dsse" && len(arguments) == 4:
		return tried(file, entry, 1, func(file, entry []byte) (found, error) {
			statement, err := openEnvelope(file, key)
			if err != nil {
				return nil, err
			}
			return readStatement(statement, entry)
		})
	case kind == "statement" && len(arguments) == 3:
		return readStatement(file, entry)
	default:
		return nil, fmt.Errorf("unknown command %q, or not its arguments", kind)
	}
}

// Reads both, and then both with so many bits of each byte turned over, one at a time.
func tried(file, entry []byte, bits int, read func(file, entry []byte) (found, error)) (found, error) {
	whole, err := read(file, entry)
	if err != nil {
		return nil, err
	}
	refused, same := 0, 0
	try := func(bytes []byte, read func() (found, error)) error {
		for place := range bytes {
			for turn := range bits {
				bit := (place + turn) % 8
				bytes[place] ^= 1 << bit
				changed, err := read()
				bytes[place] ^= 1 << bit
				switch {
				case err != nil:
					refused++
				case reflect.DeepEqual(changed, whole):
					same++
				default:
					return fmt.Errorf("believed with bit %d of byte %d turned over: %v", bit, place, changed)
				}
			}
		}
		return nil
	}
	both := func() (found, error) { return read(file, entry) }
	if err := try(file, both); err != nil {
		return nil, fmt.Errorf("the file is %w", err)
	}
	ofFile := same
	if err := try(entry, both); err != nil {
		return nil, fmt.Errorf("the entry is %w", err)
	}
	if same != ofFile {
		return nil, fmt.Errorf("another entry is as good as this one")
	}
	whole["refused"], whole["same"] = refused, same
	return whole, nil
}
