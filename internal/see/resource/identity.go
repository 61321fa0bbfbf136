package resource

// This file makes the opaque ids: a block cipher under a key of the catalogue's
// own turns a row's index into an id, so that ids cost nothing until they are
// asked for, cannot be guessed, and mean nothing in another catalogue.

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sync"
)

// idBytes is how much of a cipher block an id shows: 72 bits, 12 characters.
const idBytes = 9

type identities struct {
	block cipher.Block
	known *knownIDs
}

// knownIDs is the reverse of id, filled at the first look-up.
type knownIDs struct {
	once  sync.Once
	index map[string]int
}

func newIdentities() (identities, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return identities{}, fmt.Errorf("no randomness for resource ids: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return identities{}, fmt.Errorf("resource ids: %w", err)
	}
	return identities{block: block, known: new(knownIDs)}, nil
}

func (k identities) id(index int) string {
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[:], uint64(index))
	k.block.Encrypt(block[:], block[:])
	return base64.RawURLEncoding.EncodeToString(block[:idBytes])
}

func (k identities) find(id string, count int) (int, bool) {
	k.known.once.Do(func() {
		k.known.index = make(map[string]int, count)
		for i := range count {
			k.known.index[k.id(i)] = i
		}
	})
	i, ok := k.known.index[id]
	return i, ok
}
