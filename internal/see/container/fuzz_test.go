package container

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"topside/internal/see/proc"
)

func TestValidUnit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"ssh.service": true, "a.b.scope": true, "-.mount": true, "-.slice": true, "user@1000.service": true,
		`systemd-fsck@dev-mapper-a\x2db.service`: true, "dbus-:1.8-org.x@0.service": true, "a@b@c.service": true,
		"": false, ".service": false, "service": false, "x.snapshot": false, "user@.service": false, "@a.service": false,
		"a b.service": false, "a/b.service": false, "1.session": false, "ü.service": false,
		strings.Repeat("a", 247) + ".service": true, strings.Repeat("a", 248) + ".service": false,
	} {
		if got := ValidUnit(name); got != want {
			t.Errorf("ValidUnit(%q) = %t", name, got)
		}
	}
}

func TestUnitOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]unitPlace{
		"/":                             {},
		"/system.slice/ssh.service/sub": {unit: "ssh.service", path: "/system.slice/ssh.service"},
		"/system.slice":                 {},
		"/system.slice/_cpu.service":    {unit: "cpu.service", path: "/system.slice/_cpu.service"},
		"/a.slice/a-b.slice/c.scope":    {unit: "c.scope", path: "/a.slice/a-b.slice/c.scope"},
		"//system.slice//ssh.service":   {unit: "ssh.service", path: "//system.slice//ssh.service"},
		"/user.slice/user-1.slice/user@1.service/app.slice/x.service/y": {unit: "x.service", system: "user@1.service", path: "/user.slice/user-1.slice/user@1.service/app.slice/x.service"},
		"/user.slice/user-1.slice/user@1.service/app.slice":             {unit: "user@1.service", path: "/user.slice/user-1.slice/user@1.service"},
		"/user.slice/user-1.slice/user@x.service/y.service":             {unit: "user@x.service", path: "/user.slice/user-1.slice/user@x.service"},
		"/user.slice/user-1.slice/session-a1.scope/w.slice/x.service":   {unit: "x.service", system: "session-a1.scope", path: "/user.slice/user-1.slice/session-a1.scope/w.slice/x.service"},
	} {
		if got := unitOf(path); got != want {
			t.Errorf("unitOf(%q) = %+v, want %+v", path, got, want)
		}
	}
}

func TestOwnerUID(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int64{
		"/user.slice/user-1000.slice/session-1.scope": 1000, "/user.slice/user-0.slice": 0,
		"/user.slice/user-65535.slice/x": -1, "/user.slice/user-4294967295.slice/x": -1, "/user.slice/user-99999999999.slice": -1,
		"/user.slice/user-x.slice": -1, "/x/user-1000.slice": -1, "/user.slice": -1, "/": -1,
	} {
		uid, ok := ownerUID(path)
		if got := int64(uid); ok != (want >= 0) || ok && got != want {
			t.Errorf("ownerUID(%q) = %d, %t, want %d", path, uid, ok, want)
		}
	}
}

// Spellings of runtimes that testdata/cgroups.tsv does not hold.
func TestAttributeSpellings(t *testing.T) {
	t.Parallel()
	const id = "9bca8d63d5fa610783847915bcff0ecac1273e5b4bed3f6fa1b07350e0135961"
	for _, c := range []struct {
		path    string
		runtime Runtime
		id      string
		within  string
	}{
		{"/hadoop-yarn/container_e17_1410901177871_0001_01_000005", YARN, "container_e17_1410901177871_0001_01_000005", ""},
		{"/nomad.slice/share.slice/18df61c6-09fb-3b35-d2bd-03c0f17a9e8b.web.scope", Nomad, "18df61c6-09fb-3b35-d2bd-03c0f17a9e8b.web", ""},
		{"/qemu.slice/100.scope", QEMU, "100", ""},
		{"/machine/web.libvirt-qemu/emulator", QEMU, "web", "/machine/web.libvirt-qemu"},
		{`/machine.slice/machine-lxc\x2d5\x2dfedora.scope`, LXC, "fedora", ""},
		{"/lxc.payload/web/init.scope", LXC, "web", "/lxc.payload/web"},
		{"/lxc.monitor/web", None, "", ""},
		{"/lxc.monitor.web", None, "", ""},
		{"/lxc/outer/lxc/inner", LXC, "inner", ""},
		{"/machine.slice/libpod-conmon-" + id + ".scope", Systemd, "", ""},
		{"/kubepods.slice/kubepods-pod2c48913c_b29f_11e7_9350_020968147796.slice/crio-conmon-" + id + ".scope", Kubernetes, "", ""},
		{"/system.slice/docker-" + id + ".scope/docker/" + id[:32] + id[:32], Docker, id[:32] + id[:32], ""},
		{"/libpod_parent/libpod-" + id + "/x", Podman, id, "/libpod_parent/libpod-" + id},
		{"/ecs/69d95a04d3134530bee5a65def33a303/69d95a04d3134530bee5a65def33a303-2471261", Containerd, "69d95a04d3134530bee5a65def33a303-2471261", ""},
		{"/agent/97492eef7cc58baccbc5fc2d96e92123", None, "", ""},
		{"/../../docker/" + id + "/sub", Docker, id, "/../../docker/" + id},
		{"/system.slice/" + id + ".mount", None, "", ""},
	} {
		got := Attribute([]proc.CgroupLine{{Path: c.path}})
		if got.ContainerID != c.id || got.Runtime != c.runtime && !(c.runtime == None && got.Runtime == Systemd) {
			t.Errorf("%s: %s %q, want %s %q", c.path, got.Runtime, got.ContainerID, c.runtime, c.id)
		}
		if c.within != "" && got.Path != c.within {
			t.Errorf("%s: path %q, want %q", c.path, got.Path, c.within)
		}
	}
}

// The text is of other people's making: whatever it is, the answer keeps its
// own rules.
func FuzzAttribute(f *testing.F) {
	for _, r := range loadRows(f) {
		f.Add(r.cgroup)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Attribute(linesOf(text))
		checkPaths(t, text, got)
		if got.Unit != "" && !ValidUnit(got.Unit) || got.SystemUnit != "" && got.Unit == "" || got.Runtime == "" {
			t.Errorf("%q: %+v", text, got)
		}
	})
}

// Order of lines does not matter where the kernel gives every hierarchy once
// and all agree.
func TestAttributeOfAgreeingLines(t *testing.T) {
	t.Parallel()
	rows := loadRows(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(rows).Draw(t, "row")
		one := linesOf(r.cgroup)
		if len(one) == 0 {
			return
		}
		path := one[len(one)-1].Path
		lines := []proc.CgroupLine{{Hierarchy: 4, Controllers: "memory", Path: path}, {Hierarchy: 1, Controllers: "name=systemd", Path: path}, {Hierarchy: 2, Controllers: "cpu,cpuacct", Path: path}, {Path: path}}
		want := Attribute(lines)
		got := Attribute(rapid.Permutation(lines).Draw(t, "lines"))
		if (got.UserUID == nil) != (want.UserUID == nil) || got.UserUID != nil && *got.UserUID != *want.UserUID {
			t.Fatalf("user differs: %v, %v", got.UserUID, want.UserUID)
		}
		got.UserUID, want.UserUID = nil, nil
		if got != want {
			t.Fatalf("%+v\n%+v", got, want)
		}
	})
}

func BenchmarkAttribute(b *testing.B) {
	rows := loadRows(b)
	var all [][]proc.CgroupLine
	for _, r := range rows {
		all = append(all, linesOf(r.cgroup))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Attribute(all[i%len(all)])
	}
}
