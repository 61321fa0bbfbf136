package proc

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestMountRows(t *testing.T) {
	t.Parallel()
	rows := rowsOfKind(t, "mountinfo")
	expected := map[string]struct {
		count int
		some  []Mount
	}{
		"p053": {1, []Mount{{289, 45, 0, 173, "/", "/home/user/.local/share/Steam/steamapps/common/Baldurs Gate 3", "rw,relatime", "overlay", "overlayfs",
			"rw,seclabel,lowerdir=/home/user/.local/share/Steam/steamapps/compatdata/1086940/pfx/drive_c/users/steamuser/AppData/Local/Larian Studios/current/override:/home/user/.local/share/Steam/steamapps/common/bg3base,upperdir=/tmp/bg3/upper,workdir=/tmp/bg3/work"}}},
		"p055": {1, []Mount{{31, 21, 0, 23, "/", "/DATA/foo_bla_bla", "rw,relatime", "cifs", "//foo/BLA BLA BLA/",
			`rw,sec=ntlm,cache=loose,unc=\\foo\BLA BLA BLA,username=my_login,domain=mydomain.com,uid=12345678,forceuid,gid=12345678,forcegid,addr=10.1.30.10,file_mode=0755,dir_mode=0755,nounix,rsize=61440,wsize=65536,actimeo=1`}}},
		"p058": {42, []Mount{
			{2927, 3107, 0, 329, "/bus", "/proc/bus", "ro,relatime", "proc", "proc", "rw"},
			{2666, 2652, 0, 422, "/", "/bitnami/postgresql", "rw,relatime", "zfs", "zfspv-pool/pvc-eac565b8-0041-470f-8af7-5ebfa622d31d", "rw,xattr,noacl,casesensitive"},
		}},
		"p061": {6, []Mount{{31, 30, 0, 27, "/", "/sys/fs/cgroup/unified", "rw,nosuid,nodev,noexec,relatime", "cgroup2", "none", "rw,seclabel,nsdelegate"}}},
		"p063": {1, []Mount{{38, 31, 0, 33, "/", "/sys/fs/cgroup/cpu,cpuacct,net_cls,net_prio,hugetlb,memory", "rw,nosuid,nodev,noexec,relatime", "cgroup", "cgroup", "rw,cpu,cpuacct,memory,net_cls,net_prio,hugetlb"}}},
		"p065": {4, []Mount{{961, 957, 0, 26, "/../..", "testdata/docker2/sys/fs/cgroup", "ro,nosuid,nodev,noexec,relatime", "cgroup2", "cgroup2", "rw,seclabel,nsdelegate,memory_recursiveprot"}}},
		"p067": {2, []Mount{
			{36, 15, 0, 30, "/", "/proc/sys/fs/binfmt_misc", "rw,relatime", "autofs", "systemd-1", "rw,fd=38,pgrp=1,timeout=300,minproto=5,maxproto=5,direct"},
			{121, 22, 0, 36, "/", "/run/user/1000/gvfs", "rw,nosuid,nodev,relatime", "fuse.gvfsd-fuse", "gvfsd-fuse", "rw,user_id=1000,group_id=1000"},
		}},
	}
	covered(t, rows, expected)
	for id, e := range expected {
		mounts, err := ParseMounts(rows[id])
		if err != nil || len(mounts) != e.count {
			t.Errorf("%s: %d mounts, %v", id, len(mounts), err)
		}
		for _, m := range e.some {
			if !slices.Contains(mounts, m) {
				t.Errorf("%s: no %+v in %+v", id, m, mounts)
			}
		}
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	// Two blanks in a row, an empty source, a broken line, broken escapes.
	mounts, err := ParseMounts([]byte("1 1 0:5 /  /root rw shared:8 - rootfs rootfs rw\n2 1 0:6 / /a\\040b rw - tmpfs  rw,size=1\nrest of an option - a b\n3 1 0:7 /\\04 /\\999\\134 rw - x y"))
	expected := []Mount{
		{1, 1, 0, 5, "/", "/root", "rw", "rootfs", "rootfs", "rw"},
		{2, 1, 0, 6, "/", "/a b", "rw", "tmpfs", "", "rw,size=1"},
		{3, 1, 0, 7, `/\04`, `/\999\`, "rw", "x", "y", ""},
	}
	if err != nil || !slices.Equal(mounts, expected) {
		t.Errorf("%+v %v", mounts, err)
	}
	if _, err := ParseMounts([]byte("x y z\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if m, err := tree(t, "prometheus-procfs").Mounts(); err != nil || len(m) == 0 {
		t.Errorf("of self, without a process 1: %v %v", m, err)
	}
	m, err := tree(t, "prometheus-node_exporter").Mounts()
	if err != nil || !slices.ContainsFunc(m, func(m Mount) bool { return strings.Contains(m.Point, "[vsanDatastore]\tbafb9e5a") }) {
		t.Errorf("of process 1: %v %v", m, err)
	}
}
