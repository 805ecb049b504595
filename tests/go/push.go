package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// pushReport is what a witness took.
type pushReport struct {
	Origin      string `json:"origin"`
	Size        int64  `json:"size"`
	Taken       int    `json:"taken"`
	Refused     int    `json:"refused"`
	Connections int    `json:"connections"`
	Newest      int64  `json:"newest"` // timestamp of the last cosignature
}

// witnessed is a log with one witness.
type witnessed struct {
	address string
	vkeys   []string // the witness's
	log     note.Signer
	logKey  note.Verifier
	hashes  memory
	size    int64
	report  pushReport
}

// sizes crosses the boundaries at which consistency proofs change their form; 0 is the empty tree.
var sizes = []int64{0, 1, 2, 3, 4, 7, 8, 100, 255, 256, 257, 600, 1024, 5000}

func push(address string, vkeys []string, privateKey string) (*pushReport, error) {
	signer, err := note.NewSigner(privateKey)
	if err != nil {
		return nil, err
	}
	logKey, err := torchwood.NewVerifierFromSigner(privateKey)
	if err != nil {
		return nil, err
	}
	w := &witnessed{address: address, vkeys: vkeys, log: signer, logKey: logKey}
	w.report.Origin = signer.Name()
	old := int64(0)
	for _, size := range sizes {
		// Twice: to grow, and for a fresh timestamp over the same head.
		for range 2 {
			if err := w.cosigned(old, size); err != nil {
				return nil, fmt.Errorf("from %d to %d: %w", old, size, err)
			}
			old = size
		}
	}
	if err := w.misbehave(old); err != nil {
		return nil, err
	}
	// All that was refused left the witness where it was.
	if err := w.cosigned(old, old); err != nil {
		return nil, err
	}
	return &w.report, w.monitored(old)
}

// cosigned pushes the head of this size and checks what comes back as a log would.
func (w *witnessed) cosigned(old, size int64) error {
	signed, err := w.head(size, w.log)
	if err != nil {
		return err
	}
	proof, err := w.proof(old, size)
	if err != nil {
		return err
	}
	status, _, lines, err := w.post(body(old, proof, signed))
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("status %d, %v:\n%s", status, err, lines)
	}
	known, err := verifiers(w.vkeys)
	if err != nil {
		return err
	}
	// As tlog-witness describes it: put the lines below the checkpoint and open it by the witness's keys.
	opened, err := note.Open(append(bytes.Clone(signed), lines...), note.VerifierList(known...))
	if err != nil {
		return err
	}
	if len(opened.Sigs) != len(known) || len(opened.UnverifiedSigs) != 1 {
		return fmt.Errorf("the answer is not one line a key of the witness:\n%s", lines)
	}
	for _, sig := range opened.Sigs {
		time, err := timestamp(sig)
		if err != nil {
			return err
		}
		if time < w.report.Newest || time == 0 {
			return fmt.Errorf("timestamp %d after %d", time, w.report.Newest)
		}
		w.report.Newest = time
	}
	w.report.Size = size
	w.report.Taken++
	return nil
}

// misbehave sends what a witness must refuse. It holds a head of size held.
func (w *witnessed) misbehave(held int64) error {
	next := held + 11
	signed, err := w.head(next, w.log)
	if err != nil {
		return err
	}
	good, err := w.proof(held, next)
	if err != nil {
		return err
	}
	bad := append(tlog.TreeProof{}, good...)
	bad[0][0] ^= 1
	strange, err := w.headBy(next, w.log.Name())
	if err != nil {
		return err
	}
	elsewhere, err := w.headBy(next, "elsewhere.example/log")
	if err != nil {
		return err
	}
	for _, try := range []struct {
		what   string
		body   []byte
		status int
	}{
		{"a proof of another tree", body(held, bad, signed), 422},
		{"no proof", body(held, nil, signed), 422},
		{"a stale size", body(held-1, good, signed), 409},
		{"a size from the future", body(next, nil, signed), 409},
		{"a size above the head's", body(next+1, nil, signed), 400},
		{"a head that a stranger signed", body(held, good, strange), 403},
		{"a head of an unknown log", body(held, good, elsewhere), 404},
		{"a body without its last newline", bytes.TrimSuffix(body(held, good, signed), []byte("\n")), 400},
		{"a size with a sign", bytes.Replace(body(held, good, signed), []byte("old "), []byte("old +"), 1), 400},
		{"nothing", nil, 400},
	} {
		status, header, answer, err := w.post(try.body)
		if err != nil || status != try.status {
			return fmt.Errorf("%s: status %d, not %d: %v\n%s", try.what, status, try.status, err, answer)
		}
		if status == http.StatusConflict {
			size, err := strconv.ParseInt(strings.TrimSuffix(string(answer), "\n"), 10, 64)
			if err != nil || size != held || header.Get("Content-Type") != "text/x.tlog.size" {
				return fmt.Errorf("%s: the 409 is %q of type %q", try.what, answer, header.Get("Content-Type"))
			}
		}
		w.report.Refused++
	}
	return nil
}

// monitored reads the head back by the witness's monitoring path.
func (w *witnessed) monitored(size int64) error {
	name := sha256.Sum256([]byte(w.log.Name()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	signed, err := fetchCheckpoint(ctx, w.address+"/"+hex.EncodeToString(name[:])+"/checkpoint")
	if err != nil {
		return err
	}
	known, err := verifiers(w.vkeys)
	if err != nil {
		return err
	}
	opened, err := note.Open(signed, note.VerifierList(append(known, w.logKey)...))
	if err != nil {
		return err
	}
	c, err := torchwood.ParseCheckpoint(opened.Text)
	if err != nil {
		return err
	}
	if c.N != size || len(opened.Sigs) != len(known)+1 || len(opened.UnverifiedSigs) != 0 {
		return fmt.Errorf("the monitoring path does not serve the head of size %d by its log and its witness:\n%s", size, signed)
	}
	return nil
}

func (w *witnessed) post(body []byte) (status int, header http.Header, answer []byte, err error) {
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			w.report.Connections++
		}
	}}
	ctx := httptrace.WithClientTrace(context.Background(), trace)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, response.Header, answer, err
}

func body(old int64, proof tlog.TreeProof, signed []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", old)
	for _, hash := range proof {
		fmt.Fprintln(&b, hash)
	}
	b.WriteByte('\n')
	b.Write(signed)
	return b.Bytes()
}

// head grows the tree to size where it is smaller, and signs its head of that size.
func (w *witnessed) head(size int64, signer note.Signer) ([]byte, error) {
	for ; w.size < size; w.size++ {
		hashes, err := tlog.StoredHashes(w.size, fmt.Appendf(nil, "entry %d", w.size), w.hashes)
		if err != nil {
			return nil, err
		}
		w.hashes = append(w.hashes, hashes...)
	}
	root, err := tlog.TreeHash(size, w.hashes)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		root = sha256.Sum256(nil)
	}
	c := torchwood.Checkpoint{Origin: signer.Name(), Tree: tlog.Tree{N: size, Hash: root}}
	return note.Sign(&note.Note{Text: c.String()}, signer)
}

// headBy is the same tree's head, signed by a new key of this name.
func (w *witnessed) headBy(size int64, name string) ([]byte, error) {
	privateKey, _, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(privateKey)
	if err != nil {
		return nil, err
	}
	return w.head(size, signer)
}

func (w *witnessed) proof(old, size int64) (tlog.TreeProof, error) {
	if old == 0 || old == size {
		return nil, nil
	}
	return tlog.ProveTree(size, old, w.hashes)
}

// memory is a tree's stored hashes.
type memory []tlog.Hash

func (m memory) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, 0, len(indexes))
	for _, index := range indexes {
		if index < 0 || index >= int64(len(m)) {
			return nil, fmt.Errorf("no hash at %d", index)
		}
		list = append(list, m[index])
	}
	return list, nil
}
