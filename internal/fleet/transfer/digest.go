package transfer

import (
	"hash"

	"github.com/zeebo/blake3"
)

// newDigest returns the hash that both sides make of a file: BLAKE3, of 32 bytes. It
// is as strong as SHA-256 and costs less than half of it, and what the two sides
// compute is most of what a transfer costs beside sftp, which compares nothing.
func newDigest() hash.Hash { return blake3.New() }
