package tool

// This file keeps rows as they are sent: an investigation lists the same
// resources of a snapshot again and again, and a snapshot never changes.

import (
	"bytes"
	"encoding/json"
	"sync"

	"topside/internal/see"
	"topside/internal/see/resource"
)

// A written row is encoded, and has its line of the text block.
type written struct {
	json       []byte
	text       string
	characters int // of the JSON
}

// A rowKey is a resource with the lengths that its texts are shown in.
type rowKey struct {
	of      *resource.Resource
	lengths textLengths
}

// A book holds what was made of one snapshot so far.
type book[K comparable, T any] struct {
	mu   sync.Mutex
	kept map[K]T
}

func newBook[K comparable, T any](*see.Snapshot) (*book[K, T], error) {
	return &book[K, T]{kept: map[K]T{}}, nil
}

// keptLists bounds the whole lists that are kept of a snapshot.
const keptLists = 32

// bound empties a book that holds that many things.
func (b *book[K, T]) bound(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) >= most {
		clear(b.kept)
	}
}

// of returns what is kept for that key, made by make the first time.
func (b *book[K, T]) of(key K, make func() (T, error)) (T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if value, ok := b.kept[key]; ok {
		return value, nil
	}
	value, err := make()
	if err == nil {
		b.kept[key] = value
	}
	return value, err
}

// withData appends a member "data" to the JSON object head: the array of these
// rows.
func withData(head json.RawMessage, rows []written) json.RawMessage {
	length := len(head) + len(`,"data":[]`)
	for i := range rows {
		length += len(rows[i].json) + 1
	}
	out := append(make([]byte, 0, length), bytes.TrimSuffix(head, []byte("}"))...)
	out = append(out, `,"data":[`...)
	for i := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, rows[i].json...)
	}
	return append(out, "]}"...)
}
