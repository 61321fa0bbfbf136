package packages

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"topside/internal/see/proc"
)

// root makes a root with those files.
func root(t testing.TB, files map[string]string) (proc.FS, string) {
	t.Helper()
	folder := t.TempDir()
	files["proc/version"] = ""
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := proc.NewFS(folder)
	if err != nil {
		t.Fatal(err)
	}
	return fs, folder
}

func rpmDatabase(t testing.TB) []byte {
	t.Helper()
	f, err := os.Open("testdata/rpmdb.sqlite.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func check(t *testing.T, d *Database, want map[string]bool) {
	t.Helper()
	for path, owned := range want {
		if got, err := d.Owns(path); err != nil || got != owned {
			t.Errorf("%s: %v, %v; want %v", path, got, err, owned)
		}
	}
}

func TestDpkg(t *testing.T) {
	t.Parallel()
	fs, _ := root(t, map[string]string{
		"var/lib/dpkg/status":            "Package: x\n",
		"var/lib/dpkg/info/bash.list":    "/.\n/bin\n/bin/bash\n/usr/share/doc/bash/README\n",
		"var/lib/dpkg/info/cron.list":    "/usr/sbin/cron\n",
		"var/lib/dpkg/info/cron.md5sums": "0 usr/sbin/other\n",
		"var/lib/dpkg/diversions":        "/usr/bin/vi\n/usr/bin/vi.distrib\nvim\n",
	})
	d := New(fs)
	check(t, d, map[string]bool{
		"/bin/bash": true, "/usr/bin/bash": true, "/usr/sbin/cron": true, "/sbin/cron": true, "/usr/bin/vi.distrib": true,
		"/usr/sbin/other": false, "/usr/local/bin/bash": false, "/bin/bash2": false, "/usr/share/doc/bash/README": false,
	})
	if got := d.Sources(); !slices.Equal(got, []string{"dpkg"}) {
		t.Errorf("sources %v", got)
	}
}

func TestApkAndPacman(t *testing.T) {
	t.Parallel()
	fs, _ := root(t, map[string]string{
		"lib/apk/db/installed":              "P:busybox\nF:bin\nR:busybox\na:0:0:755\nF:\nR:top\n",
		"var/lib/pacman/local/zsh-5/files":  "%FILES%\nusr/\nusr/bin/\nusr/bin/zsh\n\n%BACKUP%\netc/zsh 0\n",
		"var/lib/pacman/local/ALPM_VERSION": "9\n",
	})
	check(t, New(fs), map[string]bool{"/bin/busybox": true, "/top": true, "/usr/bin/zsh": true, "/etc/zsh": false, "/usr/bin": false})
}

func TestRPM(t *testing.T) {
	t.Parallel()
	fs, _ := root(t, map[string]string{"usr/lib/sysimage/rpm/rpmdb.sqlite": string(rpmDatabase(t))})
	d := New(fs)
	want := map[string]bool{"/usr/bin/many": true, "/bin/many": true, "/opt/many/run": true, "/usr/bin/few": true, "/opt/few/run": true, "/usr/bin/fewer": false}
	for i := range 400 {
		want[fmt.Sprintf("/usr/lib/many/deep/module-with-a-long-name-%d.so", i+1)] = true
	}
	check(t, d, want)
	if got := d.Sources(); !slices.Equal(got, []string{"rpm"}) {
		t.Errorf("sources %v", got)
	}
}

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	fs, _ := root(t, map[string]string{"var/lib/rpm/rpmdb.sqlite": "not a database"})
	if owned, err := New(fs).Owns("/bin/sh"); owned || !errors.Is(err, ErrNone) {
		t.Errorf("%v, %v", owned, err)
	}
}

// An installation is noticed.
func TestReadsAgain(t *testing.T) {
	t.Parallel()
	fs, folder := root(t, map[string]string{"var/lib/dpkg/status": "1", "var/lib/dpkg/info/a.list": "/bin/a\n"})
	d := New(fs)
	check(t, d, map[string]bool{"/bin/a": true, "/bin/b": false})
	before := d.Revision()
	for name, text := range map[string]string{"var/lib/dpkg/info/b.list": "/bin/b\n", "var/lib/dpkg/status": "1 and 2"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.checked = d.checked.Add(-checkEvery)
	check(t, d, map[string]bool{"/bin/a": true, "/bin/b": true})
	if d.Revision() != before+1 {
		t.Errorf("revision %d after %d", d.Revision(), before)
	}
}

func FuzzHeader(f *testing.F) {
	_ = eachRow(bytes.NewReader(rpmDatabase(f)), "Packages", func(blob []byte) { f.Add(slices.Clone(blob[:min(len(blob), 4096)])) })
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, header []byte) {
		_ = ParseHeader(header, func(string) {})
	})
}

func FuzzSQLite(f *testing.F) {
	data := rpmDatabase(f)
	f.Add(data[:8192])
	f.Add(data[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = eachRow(bytes.NewReader(data), "Packages", func([]byte) {})
	})
}

func FuzzText(f *testing.F) {
	f.Add([]byte("F:bin\nR:x\n%FILES%\na\n/b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ParseApk(data, func(string) {})
		ParsePacman(data, func(string) {})
		takeLines(data, func(string) {})
	})
}
