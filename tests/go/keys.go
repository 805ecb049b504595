package main

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
)

// verifier makes the verifier of a vkey: of type 1 by x/mod, of type 4 by torchwood, of type 6 by circl.
func verifier(vkey string) (note.Verifier, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	_, encoded, found := strings.Cut(rest, "+")
	material, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(material) == 0 {
		return nil, fmt.Errorf("malformed vkey %q", vkey)
	}
	switch {
	case material[0] == 1:
		return note.NewVerifier(vkey)
	case material[0] == 4 && len(material) == 1+ed25519.PublicKeySize:
		signer, err := torchwood.NewCosignatureSigner(name, publicOnly(material[1:]))
		if err != nil {
			return nil, err
		}
		if signer.Verifier().String() != vkey {
			return nil, fmt.Errorf("vkey %q is spelt %q here", vkey, signer.Verifier())
		}
		return signer.Verifier(), nil
	case material[0] == subtreeType:
		return newSubtreeVerifier(name, vkey, material)
	}
	return nil, fmt.Errorf("vkey %q is of a type that is not spoken here", vkey)
}

func verifiers(vkeys []string) (list []note.Verifier, err error) {
	for _, vkey := range vkeys {
		v, err := verifier(vkey)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// publicOnly stands for a key whose private half is elsewhere: torchwood makes verifiers from signers.
type publicOnly ed25519.PublicKey

func (p publicOnly) Public() crypto.PublicKey { return ed25519.PublicKey(p) }

func (p publicOnly) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("the private half is elsewhere")
}
