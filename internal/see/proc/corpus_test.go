package proc

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// corpus reads a file of testdata: rows by the names of their columns.
func corpus(tb testing.TB, name string) []map[string]string {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	columns := strings.Split(strings.TrimPrefix(lines[0], "#"), "\t")
	var rows []map[string]string
	for _, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != len(columns) {
			tb.Fatalf("%s: %d columns instead of %d: %.80q", name, len(fields), len(columns), line)
		}
		row := make(map[string]string)
		for i, column := range columns {
			row[column] = unescapeRow(tb, fields[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// rowsOfKind returns the contents of the rows of one kernel file, by their id.
func rowsOfKind(tb testing.TB, kind string) map[string][]byte {
	tb.Helper()
	rows := make(map[string][]byte)
	for _, row := range corpus(tb, "proc_files.tsv") {
		if row["kind"] == kind || strings.HasPrefix(row["kind"], kind+"/") {
			rows[row["id"]] = []byte(row["content"])
		}
	}
	if len(rows) == 0 {
		tb.Fatalf("no rows of %s", kind)
	}
	return rows
}

func unescapeRow(tb testing.TB, s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case '\\':
			out.WriteByte('\\')
		case 'n':
			out.WriteByte('\n')
		case 't':
			out.WriteByte('\t')
		case 'r':
			out.WriteByte('\r')
		case 'x':
			v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				tb.Fatalf("escape in %q: %v", s, err)
			}
			out.WriteByte(byte(v))
			i += 2
		default:
			tb.Fatalf("escape in %q", s)
		}
	}
	return out.String()
}

// tree returns one of the recorded trees of the repository.
func tree(tb testing.TB, name string) FS {
	tb.Helper()
	f, err := NewFS("../../../testdata/trees/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	if f.Live() {
		tb.Fatal("a recorded tree is taken for a live procfs")
	}
	return f
}

// written makes a tree of files, by their paths below its root.
func written(tb testing.TB, files map[string]string) FS {
	tb.Helper()
	root := tb.TempDir()
	if err := os.Mkdir(root+"/proc", 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, content := range files {
		path := root + "/" + name
		if err := os.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	f, err := NewFS(root)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func ptr[T any](v T) *T { return &v }

// shown prints a pointer's value, for messages.
func shown[T any](p *T) any {
	if p == nil {
		return "absent"
	}
	return *p
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// covered fails for every row that a table of expectations does not know.
func covered[T any](t *testing.T, rows map[string][]byte, expected map[string]T) {
	t.Helper()
	for id := range rows {
		if _, ok := expected[id]; !ok {
			t.Errorf("row %s has no expectation here", id)
		}
	}
	for id := range expected {
		if _, ok := rows[id]; !ok {
			t.Errorf("there is no row %s", id)
		}
	}
}
