package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"filippo.io/torchwood"
	"github.com/cloudflare/circl/sign/mldsa/mldsa44"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// subtreeType is the type of ML-DSA-44 cosignatures.
const subtreeType = 6

// subtreeVerifier checks ML-DSA-44 cosignatures of checkpoints, as c2sp.org/tlog-cosignature has them.
type subtreeVerifier struct {
	name string
	hash uint32
	key  mldsa44.PublicKey
}

func (v *subtreeVerifier) Name() string    { return v.name }
func (v *subtreeVerifier) KeyHash() uint32 { return v.hash }

func (v *subtreeVerifier) Verify(text, sig []byte) bool {
	if len(sig) != 8+mldsa44.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	message, err := subtreeMessage(v.name, at, text)
	return err == nil && at != 0 && at <= math.MaxInt64 && mldsa44.Verify(&v.key, message, nil, sig[8:])
}

func newSubtreeVerifier(name, vkey string, material []byte) (*subtreeVerifier, error) {
	v := &subtreeVerifier{name: name, hash: keyHash(name, material)}
	if err := v.key.UnmarshalBinary(material[1:]); err != nil {
		return nil, err
	}
	if spelt := fmt.Sprintf("%s+%08x+%s", name, v.hash, base64.StdEncoding.EncodeToString(material)); spelt != vkey {
		return nil, fmt.Errorf("vkey %q is spelt %q here", vkey, spelt)
	}
	return v, nil
}

func keyHash(name string, material []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), material...))
	return binary.BigEndian.Uint32(sum[:])
}

// subtreeMessage is what an ML-DSA-44 cosigner signs of a checkpoint.
func subtreeMessage(name string, at uint64, text []byte) ([]byte, error) {
	c, err := torchwood.ParseCheckpoint(string(text))
	if err != nil {
		return nil, err
	}
	if len(name) > 255 || len(c.Origin) < 1 || len(c.Origin) > 255 {
		return nil, errors.New("a name or an origin is too long")
	}
	message := append([]byte("subtree/v1\n\x00"), byte(len(name)))
	message = append(message, name...)
	message = binary.BigEndian.AppendUint64(message, at)
	message = append(message, byte(len(c.Origin)))
	message = append(message, c.Origin...)
	message = binary.BigEndian.AppendUint64(message, 0)
	message = binary.BigEndian.AppendUint64(message, uint64(c.N))
	return append(message, c.Hash[:]...), nil
}

// timestamp is when a cosignature of either kind says that it was made.
func timestamp(sig note.Signature) (int64, error) {
	blob, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || len(blob) < 12 {
		return 0, errors.New("this is no cosignature")
	}
	return int64(binary.BigEndian.Uint64(blob[4:])), nil
}

type openReport struct {
	Origin string    `json:"origin"`
	Size   int64     `json:"size"`
	Root   tlog.Hash `json:"root"`
	Lines  int       `json:"lines"`
}

func openFile(path string, vkeys []string) (*openReport, error) {
	signed, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, lines, err := open(signed, vkeys)
	if err != nil {
		return nil, err
	}
	return &openReport{c.Origin, c.N, c.Hash, lines}, nil
}

type cosignReport struct {
	Vkey string `json:"vkey"`
	Line string `json:"line"`
}

// cosignFile cosigns the text of a signed checkpoint, whoever signed it, with the key that has this name and seed.
func cosignFile(path string, keys []string) (*cosignReport, error) {
	signed, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	seed, err := hex.DecodeString(keys[len(keys)-1])
	if err != nil || len(seed) != mldsa44.SeedSize || len(keys) != 2 {
		return nil, errors.New("a name and a seed of 32 bytes are needed")
	}
	name := keys[0]
	public, private := mldsa44.NewKeyFromSeed((*[mldsa44.SeedSize]byte)(seed))
	material := append([]byte{subtreeType}, public.Bytes()...)
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(signed, note.VerifierList()); !errors.As(err, &unverified) {
		return nil, fmt.Errorf("this is no signed note: %w", err)
	}
	at := uint64(time.Now().Unix())
	message, err := subtreeMessage(name, at, []byte(unverified.Note.Text))
	if err != nil {
		return nil, err
	}
	sig := make([]byte, mldsa44.SignatureSize)
	if err := mldsa44.SignTo(private, message, nil, true, sig); err != nil {
		return nil, err
	}
	hash := keyHash(name, material)
	blob := binary.BigEndian.AppendUint32(nil, hash)
	blob = binary.BigEndian.AppendUint64(blob, at)
	blob = append(blob, sig...)
	encode := base64.StdEncoding.EncodeToString
	return &cosignReport{
		Vkey: fmt.Sprintf("%s+%08x+%s", name, hash, encode(material)),
		Line: fmt.Sprintf("— %s %s", name, encode(blob)),
	}, nil
}
