package main

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/veraison/go-cose"
)

// Header parameters of RFC 9942 and RFC 9597, and their values for a tree of RFC 9162.
const (
	cwtClaims     = int64(15)
	vds           = int64(395)
	vdp           = int64(396)
	rfc9162Sha256 = int64(1)
	inclusion     = int64(-1)
)

// The inclusion proof of RFC 9942, section 5.2.
type inclusionProof struct {
	_     struct{} `cbor:",toarray"`
	Size  uint64
	Index uint64
	Path  [][]byte
}

// Reads a receipt of inclusion as RFC 9942 says: the root from entry and path, then the signature over the root.
func readReceipt(file, entry []byte, key ed25519.PublicKey, name, origin string) (found, error) {
	var receipt cose.Sign1Message
	if err := receipt.UnmarshalCBOR(file); err != nil {
		return nil, err
	}
	if receipt.Payload != nil {
		return nil, fmt.Errorf("the payload is not detached")
	}
	protected, unprotected := receipt.Headers.Protected, receipt.Headers.Unprotected
	if algorithm, err := protected.Algorithm(); err != nil || algorithm != cose.AlgorithmEdDSA {
		return nil, fmt.Errorf("algorithm %v (%v)", algorithm, err)
	}
	if protected[vds] != rfc9162Sha256 {
		return nil, fmt.Errorf("verifiable data structure %v", protected[vds])
	}
	proofs, _ := unprotected[vdp].(map[any]any)
	list, _ := proofs[inclusion].([]any)
	if len(proofs) != 1 || len(list) != 1 || len(unprotected) != 1 {
		return nil, fmt.Errorf("not one inclusion proof and nothing else: %v", unprotected)
	}
	encoded, _ := list[0].([]byte)
	var path inclusionProof
	if err := cbor.Unmarshal(encoded, &path); err != nil {
		return nil, err
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(entry)
	root, err := proof.RootFromInclusionProof(rfc6962.DefaultHasher, path.Index, path.Size, leaf, path.Path)
	if err != nil {
		return nil, err
	}
	verifier, err := cose.NewVerifier(cose.AlgorithmEdDSA, key)
	if err != nil {
		return nil, err
	}
	receipt.Payload = root
	if err := receipt.Verify(nil, verifier); err != nil {
		return nil, err
	}
	// Several pairs of index and size lead along one path to one root; which it was stands under the signature.
	claims, _ := protected[cwtClaims].(map[any]any)
	subject := fmt.Sprintf("%s#%x@%d/%d", origin, leaf, path.Index, path.Size)
	if claims[int64(1)] != name || claims[int64(2)] != subject {
		return nil, fmt.Errorf("the claims are %v, not of %s about %s", claims, name, subject)
	}
	kid, _ := protected[cose.HeaderLabelKeyID].([]byte)
	if want, err := thumbprint(key); err != nil || string(kid) != string(want) {
		return nil, fmt.Errorf("the key id is %x, not the key's thumbprint %x (%v)", kid, want, err)
	}
	return found{"id": hex.EncodeToString(leaf), "index": path.Index, "size": path.Size, "root": hex.EncodeToString(root)}, nil
}

// The key's thumbprint (RFC 9679), over the encoding that this library calls deterministic.
func thumbprint(key ed25519.PublicKey) ([]byte, error) {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	encoded, err := mode.Marshal(map[int]any{1: 1, -1: 6, -2: []byte(key)})
	return hashed(encoded), err
}
