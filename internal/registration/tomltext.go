package registration

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// This file changes TOML: a table of a server is one block of lines.

type tomlText struct{}

func (tomlText) parse(text []byte) (map[string]any, error) {
	whole := map[string]any{}
	if err := toml.Unmarshal(text, &whole); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %w", row, column, err)
		}
		return nil, err
	}
	return whole, nil
}

func (t tomlText) put(text []byte, table, name string, members []member) ([]byte, error) {
	whole, err := t.parse(text)
	if err != nil {
		return nil, err
	}
	whole, err = withEntry(whole, table, name, members)
	if err != nil {
		return nil, err
	}
	servers := whole[table].(map[string]any)
	block, err := toml.Marshal(map[string]any{table: map[string]any{name: servers[name]}})
	if err != nil {
		return nil, err
	}
	// The table of tables needs no line of its own.
	block = bytes.TrimPrefix(block, []byte("["+table+"]\n"))
	start, end := tableLines(text, table, name)
	if start < 0 {
		text = bytes.TrimRight(text, "\n")
		if len(text) > 0 {
			text = append(text[:len(text):len(text)], "\n\n"...)
		}
		return append(text, block...), nil
	}
	after := bytes.TrimLeft(text[end:], "\n")
	if len(after) > 0 {
		block = append(block, '\n')
	}
	return bytes.Join([][]byte{text[:start], block, after}, nil), nil
}

func (tomlText) remove(text []byte, table, name string) ([]byte, error) {
	start, end := tableLines(text, table, name)
	if start < 0 {
		return nil, errors.New("it has no table of that name")
	}
	return append(text[:start:start], text[end:]...), nil
}

// tableLines is where the table of a server and those below it stand: from its line
// to the next table's; -1 where no line names it.
func tableLines(text []byte, table, name string) (start, end int) {
	start, at := -1, 0
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if bytes.HasPrefix(trimmed, []byte("[")) {
			own := names(trimmed, table, name)
			if start < 0 && own {
				start = at
			} else if start >= 0 && !own {
				return start, at
			}
		}
		at += len(line)
	}
	return start, at
}

// names reports whether a line opens the table of a server, or one below it.
func names(line []byte, table, name string) bool {
	for i, b := range line {
		whole := map[string]any{}
		if b != ']' || toml.Unmarshal(line[:i+1], &whole) != nil {
			continue // a bracket in a quoted name
		}
		servers, _ := whole[table].(map[string]any)
		_, ok := servers[name]
		return ok
	}
	return false
}
