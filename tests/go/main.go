// Peer is a client of logs and witnesses that shares no line with the programs it talks to: notes and tree proofs are
// those of golang.org/x/mod, checkpoints, cosignatures and tiles those of filippo.io/torchwood, and ML-DSA-44 is that of
// github.com/cloudflare/circl.
//
//	peer read <prefix> <vkey>...                     follows a tiled log and checks all of it
//	peer push <witness> <witness vkey>... <log key>  lets a log of its own be witnessed, and misbehaves a little
//	peer open <file> <vkey>...                       checks a signed checkpoint
//	peer cosign <file> <name> <seed in hex>          cosigns one with ML-DSA-44
//	peer serve <directory> <size> <log key>          makes a log of its own there and serves it until it is killed
//
// Each prints what it found as one JSON object. Whatever is not as specified ends it with status 1.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 4 {
		fatal("usage: peer read|push|open|cosign|serve <address or file> <key>...")
	}
	var found any
	var err error
	switch address, keys := os.Args[2], os.Args[3:]; os.Args[1] {
	case "read":
		found, err = read(address, keys)
	case "push":
		found, err = push(address, keys[:len(keys)-1], keys[len(keys)-1])
	case "open":
		found, err = openFile(address, keys)
	case "cosign":
		found, err = cosignFile(address, keys)
	case "serve":
		if len(keys) != 2 {
			fatal("usage: peer serve <directory> <size> <log key>")
		}
		err = serve(address, keys[0], keys[1])
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		fatal(err.Error())
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fatal(err.Error())
	}
}

func fatal(message string) {
	fmt.Fprintln(os.Stderr, "peer:", message)
	os.Exit(1)
}
