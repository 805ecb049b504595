package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// readReport is what a log turned out to hold.
type readReport struct {
	Origin   string   `json:"origin"`
	Size     int64    `json:"size"`
	Lines    int      `json:"lines"`  // signature lines on the checkpoint
	Leaves   []string `json:"leaves"` // the leaf hash of each entry, in hex
	Proved   int      `json:"proved"`
	Prefixes int      `json:"prefixes"`
}

// read opens the checkpoint, which must carry a good line by every key, reads all entries, and proves some of them, and
// the consistency of some smaller trees, from tiles alone.
func read(prefix string, vkeys []string) (*readReport, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	signed, err := fetchCheckpoint(ctx, prefix+"/checkpoint")
	if err != nil {
		return nil, err
	}
	c, lines, err := open(signed, vkeys)
	if err != nil {
		return nil, err
	}
	report := &readReport{Origin: c.Origin, Size: c.N, Lines: lines}
	fetcher, err := torchwood.NewTileFetcher(prefix)
	if err != nil {
		return nil, err
	}
	client, err := torchwood.NewClient(fetcher)
	if err != nil {
		return nil, err
	}
	tree := tlog.Tree{N: c.N, Hash: c.Hash}
	for next := int64(0); next < c.N; next = int64(len(report.Leaves)) {
		for index, entry := range client.Entries(ctx, tree, next) {
			if index != int64(len(report.Leaves)) {
				return nil, fmt.Errorf("entry %d came in the place of %d", index, len(report.Leaves))
			}
			leaf := tlog.RecordHash(entry)
			report.Leaves = append(report.Leaves, hex.EncodeToString(leaf[:]))
		}
		if err := client.Err(); err != nil {
			return nil, err
		}
		if int64(len(report.Leaves)) == next {
			return nil, fmt.Errorf("no entry came after %d of %d", next, c.N)
		}
	}
	for _, index := range []int64{0, 1, 255, 256, c.N / 2, c.N - 1} {
		if index < 0 || index >= c.N {
			continue
		}
		entry, proof, err := client.Entry(ctx, tree, index)
		if err != nil {
			return nil, err
		}
		if err := tlog.CheckRecord(proof, c.N, c.Hash, index, tlog.RecordHash(entry)); err != nil {
			return nil, err
		}
		report.Proved++
	}
	hashes := torchwood.TileHashReaderWithContext(ctx, tree, fetcher)
	for _, size := range []int64{1, 2, 255, 256, 257, c.N - 1} {
		if size < 1 || size > c.N {
			continue
		}
		old, err := tlog.TreeHash(size, hashes)
		if err != nil {
			return nil, err
		}
		proof, err := tlog.ProveTree(c.N, size, hashes)
		if err != nil {
			return nil, err
		}
		if err := tlog.CheckTree(proof, c.N, c.Hash, size, old); err != nil {
			return nil, err
		}
		report.Prefixes++
	}
	return report, nil
}

func fetchCheckpoint(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || kind != "text/plain; charset=utf-8" {
		return nil, fmt.Errorf("%s: status %d, type %q", url, response.StatusCode, kind)
	}
	return io.ReadAll(response.Body)
}

// open verifies a checkpoint by all of the keys, and returns how many lines it carries.
func open(signed []byte, vkeys []string) (torchwood.Checkpoint, int, error) {
	known, err := verifiers(vkeys)
	if err != nil {
		return torchwood.Checkpoint{}, 0, err
	}
	opened, err := note.Open(signed, note.VerifierList(known...))
	if err != nil {
		return torchwood.Checkpoint{}, 0, err
	}
	if len(opened.Sigs) != len(vkeys) {
		return torchwood.Checkpoint{}, 0, fmt.Errorf("%d of %d keys signed:\n%s", len(opened.Sigs), len(vkeys), signed)
	}
	c, err := torchwood.ParseCheckpoint(opened.Text)
	return c, len(opened.Sigs) + len(opened.UnverifiedSigs), err
}
