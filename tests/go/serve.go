package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// served is where a log is.
type served struct {
	URL  string `json:"url"`
	Size int64  `json:"size"`
}

// serve writes a log of entries that are no receipts into a directory and serves it, until it is killed, by the file
// server of Go's own library: a tiled log of another make, and nothing beside it.
func serve(dir, size, privateKey string) error {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(privateKey)
	if err != nil {
		return err
	}
	w := &witnessed{log: signer}
	head, err := w.head(n, signer)
	if err != nil {
		return err
	}
	if err := put(dir, "checkpoint", head); err != nil {
		return err
	}
	for _, tile := range tlog.NewTiles(torchwood.TileHeight, 0, n) {
		hashes, err := tlog.ReadTileData(tile, w.hashes)
		if err != nil {
			return err
		}
		if err := put(dir, torchwood.TilePath(tile), hashes); err != nil {
			return err
		}
		if tile.L != 0 {
			continue
		}
		var bundle []byte
		for i := range int64(tile.W) {
			entry := fmt.Appendf(nil, "entry %d", tile.N*torchwood.TileWidth+i)
			if bundle, err = torchwood.AppendTileEntry(bundle, entry); err != nil {
				return err
			}
		}
		tile.L = -1
		if err := put(dir, torchwood.TilePath(tile), bundle); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	where := served{URL: "http://" + listener.Addr().String(), Size: n}
	if err := json.NewEncoder(os.Stdout).Encode(where); err != nil {
		return err
	}
	return http.Serve(listener, http.FileServer(http.Dir(dir)))
}

func put(dir, path string, bytes []byte) error {
	file := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, bytes, 0o644)
}
