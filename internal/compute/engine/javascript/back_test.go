package javascript

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"topside/internal/compute/engine"
)

// files is a back-channel to a map.
type files map[string]string

func (f files) ReadBack(_ context.Context, path string) ([]byte, error) {
	if data, ok := f[path]; ok {
		return []byte(data), nil
	}
	return nil, errors.New("no such file: " + path)
}

func (f files) WriteBack(_ context.Context, path string, data []byte) error {
	if path == "" {
		return errors.New("path escapes back-channel root via symlink")
	}
	f[path] = string(data)
	return nil
}

const binary = "\x00\xff\x80a\n"

// writes are ways to write the same bytes, with %q for the path.
var writes = []string{
	"Topup.write_back(%q, new Uint8Array([0, 255, 128, 97, 10]))",
	"Topup.write_back(%q, new Uint8Array([0, 255, 128, 97, 10]).buffer)",
	"Topup.write_back(%q, new Uint8Array([9, 0, 255, 128, 97, 10, 9]).subarray(1, 6))",
	"Topup.write_back(%q, new DataView(new Uint8Array([9, 0, 255, 128, 97, 10]).buffer, 1))",
}

func (w *world) same(source, want string) {
	w.Helper()
	r, _ := w.eval(source)
	got := ""
	switch {
	case r.Failure != nil:
		got = r.Failure.Message
	case r.Value != nil:
		got = *r.Value
	}
	if got != want {
		w.Errorf("%s: %q, want %q", source, got, want)
	}
}

func TestBackChannel(t *testing.T) {
	there := files{"in": binary, "text": "héllo"}
	w := open(t, engine.Options{Back: there})
	w.same("Topup.read_back('in')", "Uint8Array(5) [ 0, 255, 128, 97, 10 ]")
	w.same("Topup.read_back_text('text')", "'héllo'")
	for i, write := range writes {
		name := fmt.Sprint("out", i)
		w.same(fmt.Sprintf(write, name), "undefined")
		if there[name] != binary {
			t.Errorf("%s wrote %q", write, there[name])
		}
	}
	w.same("Topup.write_back('s', 'héllo')", "undefined")
	if there["s"] != "héllo" {
		t.Errorf("a text: %q", there["s"])
	}
	w.same("Topup.read_back('gone')", "Error: Topup.read_back: no such file: gone")
	w.same("Topup.write_back('', 'x')", "Error: Topup.write_back: path escapes back-channel root via symlink")
	w.same("Topup.write_back('x', 3)", "TypeError: Topup.write_back: the data must be a string, a Uint8Array (or another view) or an ArrayBuffer")
	w.same("Topup.write_back('x', {buffer: new ArrayBuffer(2), byteOffset: 1, byteLength: 2})", "TypeError: Topup.write_back: the data must be a string, a Uint8Array (or another view) or an ArrayBuffer")
	w.same("Topup.read_back()", "TypeError: Topup.read_back: the path must be a string")
}

func TestFilesOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TOPUP_XFER_MAX_BYTES", "0x10")
	w := open(t, engine.Options{})
	for i, write := range writes {
		path := filepath.Join(dir, "new", fmt.Sprint(i))
		w.same(fmt.Sprintf(write, path), "undefined")
		if got, err := os.ReadFile(path); err != nil || string(got) != binary {
			t.Errorf("%s: %q, %v", write, got, err)
		}
		w.same(fmt.Sprintf("Topup.read_back(%q).length", path), "5")
	}
	if err := os.WriteFile(dir+"/large", []byte(strings.Repeat("x", 17)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.same(fmt.Sprintf("Topup.read_back(%q)", dir+"/large"), "Error: Topup.read_back: file too large: "+dir+"/large is 17 bytes; cap is 16 (TOPUP_XFER_MAX_BYTES)")
	w.same(fmt.Sprintf("Topup.read_back(%q)", dir), "Error: Topup.read_back: not a regular file: "+dir)
	w.same("Topup.read_back('/no/such')", "Error: Topup.read_back: no such file: /no/such")
	w.same(fmt.Sprintf("Topup.write_back(%q, 'x'.repeat(17))", dir+"/x"), "Error: Topup.write_back: payload too large: 17 bytes; cap is 16 (TOPUP_XFER_MAX_BYTES)")
	w.same(fmt.Sprintf("Topup.write_back(%q, 'x')", dir), "Error: Topup.write_back: "+dir+".tmp: File exists")
	if left, err := filepath.Glob(dir + "/.topup-*"); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
