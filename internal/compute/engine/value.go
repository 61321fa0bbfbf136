package engine

import (
	"errors"
	"fmt"
	"strconv"
)

// Value is one value of the child protocol: nil, int64, string (raw bytes), List or Dict. The encoding is
// the smallest one that carries bytes unchanged and that a driver in any language writes in a page:
//
//	n          nothing
//	i-42e      an integer
//	5:hello    five bytes
//	l…e        a list of values
//	d…e        pairs of a byte string and a value
type Value any

// List is an ordered sequence of values.
type List []Value

// Dict holds the pairs of one message in their order.
type Dict []Pair

// Pair is one key of a Dict with its value.
type Pair struct {
	Key   string
	Value Value
}

// maxDepth bounds nesting: a reply of a driver is five levels deep.
const maxDepth = 32

// errTruncated is a message that ends inside a value.
var errTruncated = errors.New("child protocol: message ends inside a value")

// Append encodes v at the end of b. Values of other types are a programming error and are written as nothing.
func Append(b []byte, v Value) []byte {
	switch v := v.(type) {
	case int64:
		b = append(b, 'i')
		b = strconv.AppendInt(b, v, 10)
		return append(b, 'e')
	case int:
		return Append(b, int64(v))
	case string:
		return appendString(b, v)
	case List:
		b = append(b, 'l')
		for _, e := range v {
			b = Append(b, e)
		}
		return append(b, 'e')
	case Dict:
		b = append(b, 'd')
		for _, p := range v {
			b = Append(appendString(b, p.Key), p.Value)
		}
		return append(b, 'e')
	}
	return append(b, 'n')
}

func appendString(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

// Decode reads the one value that b holds. Bytes after it are an error.
func Decode(b []byte) (Value, error) {
	d := decoder{b: b}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.pos != len(b) {
		return nil, fmt.Errorf("child protocol: %d bytes after the value", len(b)-d.pos)
	}
	return v, nil
}

type decoder struct {
	b   []byte
	pos int
}

func (d *decoder) peek() (byte, error) {
	if d.pos >= len(d.b) {
		return 0, errTruncated
	}
	return d.b[d.pos], nil
}

func (d *decoder) value(depth int) (Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("child protocol: nested deeper than %d", maxDepth)
	}
	c, err := d.peek()
	if err != nil {
		return nil, err
	}
	switch {
	case c == 'n':
		d.pos++
		return nil, nil
	case c == 'i':
		d.pos++
		return d.number('e')
	case c == 'l':
		d.pos++
		list := List{}
		for {
			if done, err := d.end(); err != nil || done {
				return list, err
			}
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	case c == 'd':
		d.pos++
		dict := Dict{}
		for {
			if done, err := d.end(); err != nil || done {
				return dict, err
			}
			k, err := d.text()
			if err != nil {
				return nil, err
			}
			v, err := d.value(depth + 1)
			if err != nil {
				return nil, err
			}
			dict = append(dict, Pair{k, v})
		}
	case c >= '0' && c <= '9':
		return d.text()
	}
	return nil, fmt.Errorf("child protocol: unexpected byte %q at %d", c, d.pos)
}

// end consumes the closing letter of a list or dict, if it is next.
func (d *decoder) end() (bool, error) {
	c, err := d.peek()
	if err != nil || c != 'e' {
		return false, err
	}
	d.pos++
	return true, nil
}

func (d *decoder) number(stop byte) (int64, error) {
	for i := d.pos; i < len(d.b) && i < d.pos+21; i++ {
		if d.b[i] == stop {
			n, err := strconv.ParseInt(string(d.b[d.pos:i]), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("child protocol: bad number %q", d.b[d.pos:i])
			}
			d.pos = i + 1
			return n, nil
		}
	}
	return 0, errTruncated
}

func (d *decoder) text() (string, error) {
	n, err := d.number(':')
	if err != nil {
		return "", err
	}
	if n < 0 || n > int64(len(d.b)-d.pos) {
		return "", errTruncated
	}
	s := string(d.b[d.pos : d.pos+int(n)])
	d.pos += int(n)
	return s, nil
}

// Get returns the value of the first pair with that key, or nil.
func (d Dict) Get(key string) Value {
	for _, p := range d {
		if p.Key == key {
			return p.Value
		}
	}
	return nil
}

// Text returns a byte string field, or "" when it is absent or something else.
func (d Dict) Text(key string) string {
	s, _ := d.Get(key).(string)
	return s
}

// Maybe returns a byte string field, or nil when it is absent or something else.
func (d Dict) Maybe(key string) *string {
	if s, ok := d.Get(key).(string); ok {
		return &s
	}
	return nil
}

// Int returns an integer field, or 0 when it is absent or something else.
func (d Dict) Int(key string) int64 {
	n, _ := d.Get(key).(int64)
	return n
}

// List returns a list field, or nil.
func (d Dict) List(key string) List {
	l, _ := d.Get(key).(List)
	return l
}

// Dict returns a nested message, or nil.
func (d Dict) Dict(key string) Dict {
	v, _ := d.Get(key).(Dict)
	return v
}
