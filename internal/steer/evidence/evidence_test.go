package evidence

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"topside/internal/see/proc"
	"topside/internal/steer/alert"
)

const mapsText = `55d0c0000000-55d0c0001000 r--p 00000000 fe:00 12 /usr/bin/cat
55d0c0001000-55d0c0005000 r-xp 00001000 fe:00 12                         /usr/bin/cat
7f0000000000-7f0000010000 rwxp 00000000 00:00 0 
7f0000020000-7f0000021000 r-xp 00000000 00:01 9                          /memfd:a b (deleted)
7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]
nonsense
`

func TestParseMaps(t *testing.T) {
	t.Parallel()
	want := []alert.Mapping{
		{Start: 0x55d0c0001000, End: 0x55d0c0005000, Path: "/usr/bin/cat"},
		{Start: 0x7f0000000000, End: 0x7f0000010000, Writable: true},
		{Start: 0x7f0000020000, End: 0x7f0000021000, Path: "/memfd:a b", Deleted: true},
		{Start: 0x7fff00000000, End: 0x7fff00002000, Path: "[vdso]"},
	}
	if got := ParseMaps([]byte(mapsText)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

const tcpText = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0
   1: 0200A8C0:C350 0700A8C0:01BB 01 00000000:00000000 02:00000000 00000000     0        0 4712 2 0
   2: broken
`

func TestParseSockets(t *testing.T) {
	t.Parallel()
	got := ParseSockets([]byte(tcpText), false)
	want := []alert.Socket{
		{Inode: 4711, Listening: true, UID: 1000, Local: netip.MustParseAddrPort("127.0.0.1:8080"), Remote: netip.MustParseAddrPort("0.0.0.0:0")},
		{Inode: 4712, Established: true, Local: netip.MustParseAddrPort("192.168.0.2:50000"), Remote: netip.MustParseAddrPort("192.168.0.7:443")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	six := ParseSockets([]byte("h\n 0: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 9 1\n"), false)
	if len(six) != 1 || six[0].Local != netip.MustParseAddrPort("[::1]:22") {
		t.Errorf("%+v", six)
	}
}

func TestParseEnvironmentAndPreload(t *testing.T) {
	t.Parallel()
	got := ParseEnvironment([]byte("A=1\x00LD_PRELOAD=/x.so\x00LD_PRELOAD=/y.so\x00BROKEN\x00LD_AUDIT=\x00"), "LD_PRELOAD", "LD_AUDIT", "NONE")
	if !reflect.DeepEqual(got, map[string]string{"LD_PRELOAD": "/x.so", "LD_AUDIT": ""}) {
		t.Errorf("%v", got)
	}
	if got := ParsePreload([]byte("/a.so:/b.so /c.so # no\n#/d.so\n\n/e.so")); !slices.Equal(got, []string{"/a.so", "/b.so", "/c.so", "/e.so"}) {
		t.Errorf("%v", got)
	}
}

// A recorded tree answers what was recorded, and an error for the rest.
func TestRecordedTree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/7/status":        "Name:\tx\nUid:\t1000\t0\t0\t0\nCapEff:\t0000000000000001\nTracerPid:\t9\n",
		"proc/7/environ":       "LD_PRELOAD=/x.so\x00",
		"proc/7/maps":          mapsText,
		"proc/7/net/tcp":       tcpText,
		"proc/net/tcp":         tcpText,
		"proc/7/stat":          "7 (x) S 1 7 7 34816 7 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n",
		"proc/loadavg":         "0 0 0 1/2 77\n",
		"var/lib/dpkg/status":  "x",
		"etc/ld.so.preload":    "/lib/x.so\n",
		"usr/bin/x":            "x",
		"proc/7/fd/.keep":      "",
		"proc/7/ns/net":        "net:[1]",
		"proc/self/ns/net":     "net:[1]",
		"proc/sys/kernel/x":    "",
		"proc/8/status":        "Name:\tx\n",
		"var/lib/dpkg/info/.k": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for number, target := range map[string]string{"0": "/dev/null", "3": "socket:[4711]"} {
		if err := os.Symlink(target, filepath.Join(root, "proc/7/fd", number)); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := proc.NewFS(root)
	if err != nil {
		t.Fatal(err)
	}
	r := New(fs)
	if got, err := r.Descriptors(7); err != nil || len(got) != 2 || got[1] != (alert.Descriptor{Number: 3, Target: "socket:[4711]"}) {
		t.Errorf("descriptors %+v, %v", got, err)
	}
	if got, err := r.Credentials(7); err != nil || *got != (alert.Credentials{RealUID: 1000, Capabilities: 1, CapabilitiesKnown: true, Tracer: 9}) {
		t.Errorf("credentials %+v, %v", got, err)
	}
	if _, err := r.Credentials(8); err == nil {
		t.Error("credentials without user ids")
	}
	if tty, err := r.Terminal(7); err != nil || !tty {
		t.Errorf("terminal %v, %v", tty, err)
	}
	if s, ok := r.Socket(7, 4711); !ok || !s.Listening {
		t.Errorf("socket %+v, %v", s, ok)
	}
	if got, err := r.ListensOn(7); err != nil || !slices.Equal(got, []string{"tcp 127.0.0.1:8080"}) {
		t.Errorf("listens on %v, %v", got, err)
	}
	if got, err := r.Listening(); err != nil || len(got) != 1 {
		t.Errorf("listening %+v, %v", got, err)
	}
	if got := r.Packaged("/usr/bin/x"); got != alert.NoDatabase {
		t.Errorf("packaged %v", got)
	}
	if _, err := r.File(7, "/usr/bin/x"); err != nil {
		t.Error(err)
	}
	if got, err := r.Preload(); err != nil || !slices.Equal(got, []string{"/lib/x.so"}) {
		t.Errorf("preload %v, %v", got, err)
	}
	if _, err := r.Unlisted(func(int32) bool { return false }); err == nil {
		t.Error("a recorded tree was probed")
	}
	for _, err := range []error{
		second(r.Descriptors(99)), second(r.Credentials(99)), second(r.Mappings(99)), second(r.Environment(99, "A")), second(r.Terminal(99)),
	} {
		if err == nil {
			t.Error("a process that is not there answers")
		}
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzMaps(f *testing.F) {
	f.Add([]byte(mapsText))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range ParseMaps(data) {
			if m.End < m.Start {
				t.Errorf("%+v", m)
			}
		}
	})
}

func FuzzSockets(f *testing.F) {
	f.Add([]byte(tcpText))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, s := range ParseSockets(data, false) {
			if !s.Local.Addr().IsValid() {
				t.Errorf("%+v", s)
			}
		}
	})
}

func FuzzEnvironment(f *testing.F) {
	f.Add([]byte("A=1\x00B"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ParseEnvironment(data, "A")
		ParsePreload(data)
	})
}
