package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	attestation "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"google.golang.org/protobuf/encoding/protojson"
)

// Of the predicate, what is checked here.
type predicate struct {
	Receipt struct {
		ID    string
		Entry []byte
	}
	Inclusion struct {
		Index    uint64
		TreeSize uint64
		RootHash []byte
		Path     [][]byte
	}
}

// Reads a statement about `entry`: its form, the subject's digest, and that the path leads from the entry to the root.
func readStatement(text, entry []byte) (found, error) {
	var statement attestation.Statement
	if err := protojson.Unmarshal(text, &statement); err != nil {
		return nil, err
	}
	if err := statement.Validate(); err != nil {
		return nil, err
	}
	if subjects := statement.GetSubject(); len(subjects) != 1 ||
		subjects[0].GetDigest()["sha256"] != hex.EncodeToString(hashed(entry)) {
		return nil, fmt.Errorf("the statement is not about this entry: %v", subjects)
	}
	inner, err := statement.GetPredicate().MarshalJSON()
	if err != nil {
		return nil, err
	}
	var said predicate
	if err := json.Unmarshal(inner, &said); err != nil {
		return nil, err
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(entry)
	if said.Receipt.ID != hex.EncodeToString(leaf) || string(said.Receipt.Entry) != string(entry) {
		return nil, fmt.Errorf("the predicate is about another entry")
	}
	in := said.Inclusion
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, in.Index, in.TreeSize, leaf, in.Path, in.RootHash); err != nil {
		return nil, err
	}
	return found{
		"id": said.Receipt.ID, "index": in.Index, "size": in.TreeSize, "root": hex.EncodeToString(in.RootHash),
		"subject": statement.GetSubject()[0].GetName(), "predicate": string(inner), "predicate_type": statement.GetPredicateType(),
	}, nil
}

// Opens a DSSE envelope that `key` signed, and answers the statement in it.
func openEnvelope(text []byte, key ed25519.PublicKey) ([]byte, error) {
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return nil, err
	}
	if envelope.PayloadType != attestationType {
		return nil, fmt.Errorf("payload type %q", envelope.PayloadType)
	}
	verifier, err := dsse.NewEnvelopeVerifier(&oneKey{key})
	if err != nil {
		return nil, err
	}
	if _, err := verifier.Verify(context.Background(), &envelope); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(envelope.Payload)
}

const attestationType = "application/vnd.in-toto+json"

// An Ed25519 key as the library wants it.
type oneKey struct{ key ed25519.PublicKey }

func (one *oneKey) Verify(_ context.Context, data, signature []byte) error {
	if !ed25519.Verify(one.key, data, signature) {
		return fmt.Errorf("the signature does not verify")
	}
	return nil
}

// No name of its own: the library then takes the key's fingerprint.
func (one *oneKey) KeyID() (string, error) { return "", nil }

func (one *oneKey) Public() crypto.PublicKey { return one.key }

func hashed(bytes []byte) []byte {
	digest := sha256.Sum256(bytes)
	return digest[:]
}
