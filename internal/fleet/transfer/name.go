package transfer

import (
	"encoding/json"
	"unicode/utf8"
)

// pathname is a path on the wire. Names of Unix are bytes: those that are not UTF-8, which
// JSON would change into others without a word, travel as an object with the bytes in
// base64.
type pathname string

type rawName struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON implements [json.Marshaler].
func (n pathname) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	return json.Marshal(rawName{[]byte(n)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *pathname) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var raw rawName
		err := json.Unmarshal(b, &raw)
		*n = pathname(raw.Bytes)
		return err
	}
	var s string
	err := json.Unmarshal(b, &s)
	*n = pathname(s)
	return err
}
