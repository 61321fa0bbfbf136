package frame

import (
	"bytes"
	"encoding/json"
)

// scanFast takes a message apart without decoding it; ok is false for what is left to
// encoding/json: what is not valid, and what is unusual.
//
// Each call passes four scans, and a summary has tens of kilobytes: this one looks at
// each byte twice, once here and once in json.Valid, and copies none.
func scanFast(message []byte) (e Envelope, ok bool) {
	if !json.Valid(message) {
		return e, false
	}
	// The message is valid: what follows need not look for its end with care.
	b := skipBlanks(message)
	if b[0] != '{' {
		return e, false
	}
	var key, value []byte
	for b = skipBlanks(b[1:]); b[0] != '}'; {
		key, value, b = nextMember(b)
		switch string(key) {
		case `"jsonrpc"`:
		case `"id"`:
			e.ID = value
		case `"method"`:
			if !plainString(value) {
				return e, false
			}
			e.Method = string(value[1 : len(value)-1])
		case `"params"`:
			e.Params = value
		case `"result"`:
			e.Result = value
		case `"error"`:
			e.Error = value
		default:
			return e, false // another spelling of one of these, perhaps
		}
	}
	return e, true
}

// nextMember takes a member off what is left of a valid object: its name with quotes,
// its value, and the rest, which begins with the next member or the end.
func nextMember(b []byte) (key, value, rest []byte) {
	if b[0] == ',' {
		b = skipBlanks(b[1:])
	}
	key = b[:stringEnd(b)]
	b = skipBlanks(b[len(key):])
	b = skipBlanks(b[1:]) // the colon
	value = b[:valueEnd(b)]
	return key, value, skipBlanks(b[len(value):])
}

func skipBlanks(b []byte) []byte {
	for b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t' {
		b = b[1:]
	}
	return b
}

// stringEnd is the length of the string that b begins with.
func stringEnd(b []byte) int {
	at := 1
	for {
		at += bytes.IndexByte(b[at:], '"') + 1
		slashes := 0
		for b[at-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

// valueEnd is the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for at := 0; ; {
		switch c := b[at]; c {
		case '"':
			at += stringEnd(b[at:])
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return at
			}
		}
		at++
	}
}

// plainString reports whether a value is a string that stands for itself.
func plainString(value []byte) bool {
	if value[0] != '"' {
		return false
	}
	for _, c := range value {
		if c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}
