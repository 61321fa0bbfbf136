package proc

import (
	"bytes"
)

// Load reads proc/loadavg.
func (f FS) Load() (*Load, error) {
	data, err := f.Read(FileLoad)
	if err != nil {
		return nil, err
	}
	return ParseLoad(data)
}

// ParseLoad parses the content of proc/loadavg (proc_loadavg(5)):
// "0.20 0.18 0.12 1/80 11206".
func ParseLoad(data []byte) (*Load, error) {
	l := new(Load)
	rest := data
	for _, into := range []*float64{&l.One, &l.Five, &l.Fifteen} {
		var word []byte
		var ok bool
		word, rest = nextWord(rest)
		if *into, ok = parseDecimal(word); !ok {
			return nil, malformed("loadavg", data)
		}
	}
	word, _ := nextWord(rest)
	running, entities, _ := bytes.Cut(word, []byte{'/'})
	r, ok := parsePID(running)
	n, ok2 := parsePID(bytes.TrimSpace(entities))
	if !ok || !ok2 {
		return nil, malformed("loadavg", data)
	}
	l.Runnable, l.Entities = int(r), int(n)
	return l, nil
}
