module counterfoil.example/exports

go 1.24.0

require (
	github.com/fxamacker/cbor/v2 v2.5.0
	github.com/in-toto/attestation v1.1.2
	github.com/secure-systems-lab/go-securesystemslib v0.9.1
	github.com/transparency-dev/merkle v0.0.2
	github.com/veraison/go-cose v1.3.0
	google.golang.org/protobuf v1.36.6
)

require (
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/crypto v0.40.0 // indirect
	golang.org/x/sys v0.34.0 // indirect
)
