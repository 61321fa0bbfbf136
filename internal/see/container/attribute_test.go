package container

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"topside/internal/see/proc"
)

// A row is one line of testdata/cgroups.tsv: what real machines write in
// proc/PID/cgroup, and what it means. ambiguous holds the columns in which
// another reading is as right.
type row struct {
	id, cgroup                                  string
	runtime, containerID, podUID, unit, userUID string
	note                                        string
	ambiguous                                   map[string]bool
}

func loadRows(t testing.TB) []row {
	t.Helper()
	text, err := os.ReadFile("testdata/cgroups.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 9 {
			t.Fatalf("row %s has %d columns, want 9", fields[0], len(fields))
		}
		for i := range fields {
			fields[i] = unescapeColumn(t, fields[i])
		}
		r := row{id: fields[0], cgroup: fields[2], runtime: fields[3], containerID: fields[4], podUID: fields[5], unit: fields[6], userUID: fields[7], note: fields[8], ambiguous: map[string]bool{}}
		if columns, ok := marked(r.note, "amb"); ok {
			for column := range strings.SplitSeq(columns, ",") {
				r.ambiguous[column] = true
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// unescapeColumn undoes the escapes of the data files: \\ \n \t \r \xHH.
func unescapeColumn(t testing.TB, text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case '\\':
			b.WriteByte('\\')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'x':
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			t.Fatalf("unknown escape \\%c in %q", text[i], text)
		}
	}
	return b.String()
}

// marked finds [name=value] in a note.
func marked(note, name string) (string, bool) {
	_, rest, ok := strings.Cut(note, "["+name+"=")
	if !ok {
		return "", false
	}
	value, _, ok := strings.Cut(rest, "]")
	return value, ok
}

// linesOf is what the sampler hands over; content that makes no sense is no
// lines.
func linesOf(text string) []proc.CgroupLine {
	lines, _ := proc.ParseCgroups([]byte(text))
	return lines
}

func TestAttributeRealMachines(t *testing.T) {
	t.Parallel()
	rows := loadRows(t)
	if len(rows) != 157 {
		t.Fatalf("%d rows, want 157", len(rows))
	}
	for _, r := range rows {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			got := Attribute(linesOf(r.cgroup))
			uid := ""
			if got.UserUID != nil {
				uid = strconv.FormatUint(uint64(*got.UserUID), 10)
			}
			check := func(column, got, want string) {
				t.Helper()
				if want == "-" {
					want = ""
				}
				if got != want && !r.ambiguous[column] {
					t.Errorf("%s = %q, want %q\n%s\nnote: %s", column, got, want, r.cgroup, r.note)
				} else if got != want {
					t.Logf("ambiguous %s = %q, the table says %q", column, got, want)
				}
			}
			check("runtime", string(got.Runtime), r.runtime)
			check("id", got.ContainerID, r.containerID)
			check("pod", got.PodUID, r.podUID)
			check("unit", got.Unit, r.unit)
			check("uid", uid, r.userUID)
			if unit, ok := marked(r.note, "sysunit"); ok && !r.ambiguous["unit"] && got.SystemUnit != unit {
				t.Errorf("SystemUnit = %q, want %q", got.SystemUnit, unit)
			}
			if unit, ok := marked(r.note, "inner"); ok && got.InnerUnit != unit {
				t.Errorf("InnerUnit = %q, want %q", got.InnerUnit, unit)
			}
			checkPaths(t, r.cgroup, got)
		})
	}
}

// checkPaths holds what is true of every attribution: its paths are prefixes,
// at an element's border, of a line's path.
func checkPaths(t *testing.T, text string, got Attribution) {
	t.Helper()
	for _, path := range []string{got.Path, got.UnitPath} {
		if path == "" {
			continue
		}
		found := false
		for _, line := range linesOf(text) {
			rest, ok := strings.CutPrefix(line.Path, path)
			found = found || ok && (rest == "" || rest[0] == '/')
		}
		if !found {
			t.Errorf("path %q is no prefix of a line of %q", path, text)
		}
	}
	if got.InContainer() != (got.Path != "") {
		t.Errorf("in a container: %t, but its path is %q", got.InContainer(), got.Path)
	}
	if (got.Unit != "") != (got.UnitPath != "") {
		t.Errorf("unit %q with path %q", got.Unit, got.UnitPath)
	}
}
