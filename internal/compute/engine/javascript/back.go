package javascript

// This file holds Topup, through which evaluated code reads and writes the files of
// whoever drives the session: read_back and write_back, the functions that OCaml
// sessions have (contract topup, section 8). Without a back-channel they work on the
// files of this process.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/dop251/goja"

	"topside/internal/compute/engine"
)

// defaultBackCap is the largest file, in bytes, unless TOPUP_XFER_MAX_BYTES says
// otherwise.
const defaultBackCap = 16 << 20

func backCap() int {
	text := strings.TrimSpace(os.Getenv("TOPUP_XFER_MAX_BYTES"))
	if digits := strings.TrimLeft(text, "0"); digits != "" && digits[0] >= '1' && digits[0] <= '9' {
		text = digits // a leading zero is no octal here
	}
	n, err := strconv.ParseInt(text, 0, 63)
	if err != nil || n <= 0 {
		return defaultBackCap
	}
	return int(n)
}

// backGlobal defines Topup. It takes the constructors that it needs before evaluated
// code can replace them.
func (c *child) backGlobal(hidden func(*goja.Object, string, any)) {
	bytesOf, errorOf := c.vm.Get("Uint8Array"), c.vm.Get("Error")
	build := func(constructor goja.Value, argument any) goja.Value {
		v, err := c.vm.New(constructor, c.vm.ToValue(argument))
		if err != nil {
			panic(err)
		}
		return v
	}
	fail := func(function string, err error) { panic(build(errorOf, "Topup."+function+": "+err.Error())) }
	path := func(function string, call goja.FunctionCall) string {
		s, ok := call.Argument(0).Export().(string)
		if !ok {
			panic(c.vm.NewTypeError("Topup." + function + ": the path must be a string"))
		}
		return s
	}
	read := func(function string, call goja.FunctionCall) []byte {
		b, err := c.readBack(path(function, call))
		if err != nil {
			fail(function, err)
		}
		return b
	}
	topup := c.vm.NewObject()
	hidden(topup, "read_back", func(call goja.FunctionCall) goja.Value {
		return build(bytesOf, c.vm.NewArrayBuffer(read("read_back", call)))
	})
	hidden(topup, "read_back_text", func(call goja.FunctionCall) goja.Value {
		return c.vm.ToValue(strings.ToValidUTF8(string(read("read_back_text", call)), "\uFFFD"))
	})
	hidden(topup, "write_back", func(call goja.FunctionCall) goja.Value {
		to := path("write_back", call)
		data, ok := c.bytesIn(call.Argument(1))
		if !ok {
			panic(c.vm.NewTypeError("Topup.write_back: the data must be a string, a Uint8Array (or another view) or an ArrayBuffer"))
		}
		if err := c.writeBack(to, data); err != nil {
			fail("write_back", err)
		}
		return goja.Undefined()
	})
	hidden(c.vm.GlobalObject(), "Topup", topup)
}

// bytesIn are the bytes of a value: of a string its UTF-8, of a buffer or a view of
// one what it holds.
func (c *child) bytesIn(v goja.Value) ([]byte, bool) {
	if s, ok := v.Export().(string); ok {
		return []byte(s), true
	}
	if buffer, ok := v.Export().(goja.ArrayBuffer); ok {
		return buffer.Bytes(), true
	}
	o, ok := v.(*goja.Object)
	if !ok {
		return nil, false
	}
	member := func(name string) any {
		if v := o.Get(name); v != nil {
			return v.Export()
		}
		return nil
	}
	buffer, isView := member("buffer").(goja.ArrayBuffer)
	from, hasFrom := member("byteOffset").(int64)
	length, hasLength := member("byteLength").(int64)
	if !isView || !hasFrom || !hasLength || from < 0 || length < 0 || from+length > int64(len(buffer.Bytes())) {
		return nil, false
	}
	return buffer.Bytes()[from : from+length], true
}

func (c *child) readBack(path string) ([]byte, error) {
	if !c.back {
		return readHere(path)
	}
	d, err := c.ask(engine.Dict{{Key: "what", Value: "read"}, {Key: "path", Value: path}})
	return []byte(d.Text("data")), err
}

func (c *child) writeBack(path string, data []byte) error {
	if !c.back {
		return writeHere(path, data)
	}
	_, err := c.ask(engine.Dict{{Key: "what", Value: "write"}, {Key: "path", Value: path}, {Key: "data", Value: string(data)}})
	return err
}

// readHere reads a regular file within the cap. What is no such file is not opened:
// that may wait for ever.
func readHere(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no such file: %s", path)
	case err != nil:
		return nil, fmt.Errorf("%s: %s", systemText(err), path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("not a regular file: %s", path)
	}
	most := backCap()
	tooLarge := func(n int64) error {
		return fmt.Errorf("file too large: %s is %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", path, n, most)
	}
	if info.Size() > int64(most) {
		return nil, tooLarge(info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", systemText(err), path)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %s", systemText(err), path)
	}
	if len(data) > most { // it grew
		return nil, tooLarge(int64(len(data)))
	}
	return data, nil
}

// writeHere writes a file as a whole: beside it first, then under its name.
func writeHere(path string, data []byte) error {
	if most := backCap(); len(data) > most {
		return fmt.Errorf("payload too large: %d bytes; cap is %d (TOPUP_XFER_MAX_BYTES)", len(data), most)
	}
	fail := func(err error) error { return fmt.Errorf("%s.tmp: %s", path, systemText(err)) }
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".topup-*.tmp") // 0600
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fail(err)
	}
	return nil
}

// systemText is the text of a system error as the C library has it.
func systemText(err error) string {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return err.Error()
	}
	text := number.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// ask sends a request back to the server in the middle of an evaluation.
func (c *child) ask(fields engine.Dict) (engine.Dict, error) {
	c.backID++
	c.send(append(engine.Dict{{Key: "op", Value: "back"}, {Key: "id", Value: c.backID}}, fields...))
	for {
		d := <-c.frames
		if d.Text("op") != "back" || d.Int("id") != c.backID {
			continue
		}
		if f := d.Maybe("failure"); f != nil {
			_, text, _ := strings.Cut(*f, ": ")
			return nil, errors.New(text)
		}
		return d, nil
	}
}
