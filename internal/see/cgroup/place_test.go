package cgroup

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRelativeTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		root, path, want string
		ok               bool
	}{
		{"/", "/", "", true},
		{"/", "/a/b", "/a/b", true},
		{"/a", "/a/b", "/b", true},
		{"/a", "/a", "", true},
		{"/a", "/ab", "", false},
		{"/a", "/", "", false},
		{"/", "/../x", "", false}, // above what is mounted
		{"/../..", "/../../system.slice/x", "/system.slice/x", true}, // the host's tree, seen from our own namespace
		{"/../..", "/../..", "", true},
		{"/../..", "/", "", false},     // our own group's name is not known
		{"/../..", "/../y", "", false}, // nor is its parent's
		{"/../../a", "/../../a/b", "/b", true},
		{"/", "/a/../../etc", "", false},
		{"/", "/..a", "/..a", true},
		{"/", "a", "", false},
	} {
		got, ok := relativeTo(c.root, c.path)
		if got != c.want || ok != c.ok {
			t.Errorf("relativeTo(%q, %q) = %q, %t, want %q, %t", c.root, c.path, got, ok, c.want, c.ok)
		}
	}
}

func TestCutAt(t *testing.T) {
	t.Parallel()
	const id = "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
	for _, c := range []struct {
		path, within, want string
		ok                 bool
	}{
		{"/docker/" + id + "/sub", "/docker/" + id, "/docker/" + id, true},
		{"/docker/" + id, "/docker/" + id, "/docker/" + id, true},
		{"/", "/docker/" + id, "", false},
		{"/system.slice/containerd.service", "/docker/" + id, "", false},
		{"/other/" + id + "/x", "/docker/" + id, "/other/" + id, true}, // the id is the same container everywhere
		{"/docker/outer/docker/" + id, "/docker/" + id, "/docker/outer/docker/" + id, true},
		{"/../../system.slice/ssh.service/x", "/system.slice/ssh.service", "/../../system.slice/ssh.service", true},
		{"/b/init.scope", "/init.scope", "", false},
		{"/x/lxc/web/ns/init.scope", "/lxc/web", "/x/lxc/web", true},
		{"/web", "/lxc/web", "", false},
		{"/lxc/webber", "/lxc/web", "", false},
		{"/a/b", "/", "/", true},
		{"/../a", "/..", "/../", true},
	} {
		got, ok := cutAt(c.path, c.within)
		if got != c.want || ok != c.ok {
			t.Errorf("cutAt(%q, %q) = %q, %t, want %q, %t", c.path, c.within, got, ok, c.want, c.ok)
		}
	}
}

// Whatever is cut, it is a prefix at an element's border.
func TestCutAtProperty(t *testing.T) {
	t.Parallel()
	element := rapid.SampledFrom([]string{"/a", "/b", "/..", "/lxc", "/init.scope", "/docker-9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961.scope"})
	path := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(element, 1, 6).Draw(t, "elements"), "") })
	rapid.Check(t, func(t *rapid.T) {
		p, within := path.Draw(t, "path"), path.Draw(t, "within")
		got, ok := cutAt(p, within)
		if !ok {
			return
		}
		rest, prefix := strings.CutPrefix(p+"/", strings.TrimSuffix(got, "/"))
		if !prefix || !strings.HasPrefix(rest, "/") {
			t.Fatalf("cutAt(%q, %q) = %q", p, within, got)
		}
	})
}

func TestMembershipsAreComparable(t *testing.T) {
	t.Parallel()
	h := discover(t, world(t, "hybrid"))
	a := h.Place(lines(t, "6:memory:/x\n0::/x\n"))
	b := h.Place(lines(t, "6:memory:/x\n0::/x\n"))
	if a != b || a.Empty() || a.Dir("memory") != "sys/fs/cgroup/memory/x" || a.Dir("") != "sys/fs/cgroup/unified/x" || a.Dir("pids") != "sys/fs/cgroup/unified/x" {
		t.Errorf("%+v\n%+v", a, b)
	}
	var none Membership
	if !none.Empty() || none.Dir("memory") != "" {
		t.Error("the zero Membership holds a directory")
	}
}
