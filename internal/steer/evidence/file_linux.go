package evidence

import (
	"io/fs"
	"syscall"
	"time"

	"topside/internal/steer/alert"
)

func fileOf(info fs.FileInfo) *alert.File {
	f := &alert.File{Mode: unixMode(info.Mode())}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.UID = st.Uid
		f.Changed = time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec))
	}
	return f
}
