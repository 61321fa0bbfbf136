package proc

import (
	"testing"
)

func TestDescriptorCountOfTree(t *testing.T) {
	t.Parallel()
	f := tree(t, "prometheus-procfs")
	if n, err := f.DescriptorCount(26231); n != 5 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if _, err := f.DescriptorCount(584); f.ReasonOf(err) != NotRecorded {
		t.Error(err)
	}
}
