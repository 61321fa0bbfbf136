package proc

import (
	"testing"
)

func TestLinksOfTree(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	if path, deleted, err := f.Executable(26231); path != "/usr/bin/vim" || deleted || err != nil {
		t.Errorf("%q %v %v", path, deleted, err)
	}
	if path, err := f.WorkingDirectory(26231); path != "/usr/bin" || err != nil {
		t.Errorf("%q %v", path, err)
	}
	if target, err := f.Readlink("proc/self"); target != "26231" || err != nil {
		t.Errorf("%q %v", target, err)
	}
	if _, _, err := f.Executable(584); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}
