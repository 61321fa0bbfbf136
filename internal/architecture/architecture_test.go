package architecture

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "topside/"

// A rule forbids imports to the packages below a folder, and says why.
type rule struct {
	below     string
	forbidden []string
	why       string
}

var rules = []rule{
	{"internal/see", []string{"os/exec"}, "see only reads files: observing runs nothing"},
	{"internal/see", domains("see"), "observation knows neither what is done with it nor how it is asked for"},
	{"internal/compute", domains("compute"), "sessions know nothing of the machine around them"},
	{"internal/steer", []string{"internal/compute", "internal/fleet", "internal/contract", "internal/tool", "internal/wire", "internal/cli"}, "steer may read see, and nothing else"},
	{"internal/fleet", domains("fleet"), "fleet routes calls without knowing what they mean"},
	{"internal/wire", []string{"internal/see", "internal/steer", "internal/compute", "internal/fleet", "internal/contract", "internal/tool", "internal/cli"}, "a transport knows no tools"},
	{"internal/tool", []string{"internal/contract", "internal/wire", "internal/cli"}, "a tool does not know the dialect that it is spoken to in"},
	{"internal/contract", []string{"internal/cli"}, "commands are above contracts"},
	{"internal/see/proc", []string{"internal/see/"}, "proc is the lowest layer of see"},
	{"internal/see/cgroup", []string{"internal/see/container", "internal/see/sample", "internal/see/model", "internal/see/resource", "internal/see/store"}, "cgroup reads one group and knows no container"},
	{"internal/see/sample", []string{"internal/see/model", "internal/see/resource", "internal/see/store"}, "a pass holds counters, not rates"},
	{"internal/see/model", []string{"internal/see/resource", "internal/see/store"}, "rates know no ids"},
}

// domains are the packages that the domain named may not know.
func domains(own string) []string {
	var out []string
	for _, d := range []string{"see", "steer", "compute", "fleet", "contract", "tool", "wire", "cli", "tui"} {
		if d != own {
			out = append(out, "internal/"+d)
		}
	}
	return out
}

// sources returns the Go files of the module that are not tests, by folder.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	root := "../.."
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			folder, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			folder = filepath.ToSlash(folder)
			files[folder] = append(files[folder], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d folders with Go files were found below %s", len(files), root)
	}
	return files
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.TrimPrefix(path, module))
	}
	return out
}

func TestArrowsPointOneWay(t *testing.T) {
	t.Parallel()
	for folder, files := range sources(t) {
		for _, file := range files {
			for _, imported := range importsOf(t, file) {
				for _, r := range rules {
					if within(folder, r.below) && forbids(r, imported) {
						t.Errorf("%s imports %s: %s", file, imported, r.why)
					}
				}
			}
		}
	}
}

func within(folder, below string) bool {
	return folder == below || strings.HasPrefix(folder, below+"/")
}

func forbids(r rule, imported string) bool {
	return slices.ContainsFunc(r.forbidden, func(f string) bool {
		return imported == f || strings.HasPrefix(imported, strings.TrimSuffix(f, "/")+"/")
	})
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	all := sources(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		var doc string
		for _, file := range all[folder] {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc != nil {
				doc += parsed.Doc.Text()
			}
		}
		if len(strings.Fields(doc)) < 5 {
			t.Errorf("package %s has no package comment that says what it is for", folder)
		}
	}
}

// The words occur in the layer that owns the root, and in what people read.
func TestOnlyProcSpellsOutTheKernelsFolders(t *testing.T) {
	t.Parallel()
	for folder, files := range sources(t) {
		if !within(folder, "internal/see") || within(folder, "internal/see/proc") {
			continue
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for number, line := range strings.Split(string(data), "\n") {
				code, _, _ := strings.Cut(line, "//")
				if strings.Contains(code, `"/proc`) || strings.Contains(code, `"/sys`) {
					t.Errorf("%s:%d spells out an absolute path of the kernel: give it to proc.FS as a name", file, number+1)
				}
			}
		}
	}
}
