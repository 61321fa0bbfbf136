package proc

import (
	"testing"
)

func TestHidePIDModes(t *testing.T) {
	t.Parallel()
	mount := func(point, super string) Mount { return Mount{Point: point, Type: "proc", SuperOptions: super} }
	for _, c := range []struct {
		mounts  []Mount
		foreign bool
		mode    string
	}{
		{[]Mount{mount("/proc", "rw")}, false, "off"},
		{[]Mount{mount("/proc", "rw,hidepid=1")}, false, "noaccess"},
		{[]Mount{mount("/proc", "rw,hidepid=ptraceable,subset=pid")}, false, "ptraceable"},
		{[]Mount{mount("/proc", "rw,hidepid=2"), mount("/proc", "rw,hidepid=0")}, false, "off"},
		{[]Mount{mount("/other/proc", "rw")}, false, ""},
		{[]Mount{mount("/proc", "rw,hidepid=3")}, false, ""},
		{[]Mount{mount("/proc", "rw,hidepid=1"), mount("/host/proc", "rw,hidepid=2")}, true, "invisible"},
	} {
		point := "/proc"
		if c.foreign {
			point = "/host/proc"
		}
		if mode, err := hidePID(c.mounts, point, c.foreign); mode != c.mode || (err == nil) != (c.mode != "") {
			t.Errorf("%+v: %q %v", c.mounts, mode, err)
		}
	}
}
